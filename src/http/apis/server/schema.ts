// What the server says of itself.

import { Type } from "../../type.ts"
import { text } from "../fields.ts"

export const Version = Type.Object({ version: text }, { title: "Version" })

export const Health = Type.Object({ status: text }, { title: "Health" })
