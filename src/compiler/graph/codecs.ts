// What each weight of a model is kept in. A file may mix codecs from tensor to tensor, so whoever needs one asks here.

import type { CodecName } from "../../runtime/format.ts"
import type { Weight } from "./graph.ts"

export type CodecOf = (weight: Weight) => CodecName
