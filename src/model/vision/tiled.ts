// The graph of towers that read all tiles of an image at once (mllama.ts), rows as src/images/together.ts lays them out: the table's row of a
// token is the position of its patch in its tile, of each way in which tiles may lie; its height is that of its patch in any tile.

import {
  add,
  concat,
  embed,
  finish,
  hiddenIn,
  linear,
  multiply,
  select,
  slice,
  weigh,
} from "../../compiler/graph/builder.ts"
import type { Graph, Node } from "../../compiler/graph/graph.ts"
import { tileNumbers } from "../../images/together.ts"
import { decoderLayer } from "../layers.ts"
import { named, normed } from "../tensors.ts"
import { COLOURS, projected, type Tiled, type TowerConfig, tower, towerShapes } from "./tower.ts"

export const towerGraph = (config: TowerConfig): Graph =>
  config.tiled ? tiledTower(config, config.tiled) : tower(config)

function tiledTower(config: TowerConfig, { most, local, beside }: Tiled): Graph {
  const { architecture, width, side, patch, blocks, firstNorm, lastNorm, projector } = config
  const own = named("", "model.")
  const [pixels, tiles] = [COLOURS * patch * patch, tileNumbers(most)]
  const gated = (x: Node, gate: string) => weigh(x, own(gate, `${gate}.weight`, 1))
  const exact = (name: string, rows: number, columns: number) => ({
    ...own(name, `${name}.weight`, rows, columns),
    exact: true as const,
  })
  const given = hiddenIn(towerShapes(config).taken)
  const [tile, isPatch, isClass] = [
    slice(given, pixels, tiles),
    slice(given, pixels + tiles, 1),
    slice(given, pixels + tiles + 1, 1),
  ]
  const ofTile = (name: string) => linear(tile, exact(name, width, tiles))
  const patches = linear(
    slice(given, 0, pixels),
    own("patches", "patch_embedding.weight", width, pixels),
  )
  const before = multiply(gated(ofTile("tiles_before"), "before_gate"), isPatch)
  const table = own("tile_positions", "tile_positions.weight", tiles * (side * side + 1), width)
  const places = own("positions", "positions.weight", side * side + 1, width)
  const rows = [
    patches,
    before,
    weigh(multiply(ofTile("ones"), isClass), own("class", "class.weight", width)),
    gated(embed(places, "height"), "positions_gate"),
    gated(embed(table), "tile_positions_gate"),
  ].reduce(add)
  const even = normed(rows, firstNorm!, own, "embed_norm", "embed_norm")
  // Rows that nothing stands in are zeros.
  let x = multiply(even, add(isPatch, isClass))
  // All layers have one place, as in other towers.
  const place = { layers: blocks.length, hidden: width, sinks: 0, keptBy: 0 }
  const read: Node[] = []
  for (const [index, block] of blocks.entries()) {
    if (index === local) {
      const behind = gated(ofTile("tiles_behind"), "behind_gate")
      x = add(normed(x, lastNorm!, own, "norm", "norm"), behind)
    }
    read.push(x)
    const prefix = index < local ? "model." : "model.global."
    x = decoderLayer(block, x, { ...place, prefix, index })
  }
  const all = [x, ...beside.map((layer) => read[layer]!)].reduce(concat)
  const hidden = projected(select(all, "hidden"), projector, named("projector.", ""))
  const shapes = towerShapes(config)
  return finish({ architecture, shapes, window: undefined, sinks: 0 }, x, table, { hidden })
}
