// One layer of a decoder as a value: which norms stand where, what attention sees and how its heads are turned, what the MLP
// is. Architectures differ in these facts and in nothing else; layers.ts makes the graph of them. Layers of one model need
// not be alike.

import type { Activation } from "../compiler/graph/elementwise.ts"
import type { Routing } from "../compiler/graph/graph.ts"
import type { Rotation } from "../runtime/rotation.ts"

export interface Block {
  norm: NormKind
  norms: Norms
  /** It has nothing but attention, or what stands in its place, or nothing but the MLP, behind its norm; or leaves what it reads. */
  only?: "attention" | "mlp" | "nothing"
  /** Attention and MLP read the layer's input, both, and both are added to it; else the MLP reads what attention has left. */
  parallel: boolean
  /** What is multiplied with before it is added. */
  residual: number
  /** Each column of it is multiplied with a learned number of its own, too. */
  layerScale?: true
  /** What attention gives is multiplied with one learned number, and what the MLP gives with another. */
  gates?: true
  /**
   * It is not added: what was read, normed, goes towards it by a learned share of each column, which is stored so many times smaller and
   * with a sign that says nothing.
   */
  interpolated?: number
  attention: SelfAttention
  /** Behind it, under a norm of its own: attention over the first positions, which are a recording's rows as its tower left them. */
  cross?: Cross
  /**
   * Attention reads keys and values of rows of images alone, by the shapes of `attention` and under norms of queries and keys; where a token
   * sees no image the layer leaves what it reads.
   */
  media?: true
  /** A matrix stands in the place of attention. */
  isPlain?: true
  /** It stands in the place of attention, with so many taps. */
  convolution?: { taps: number }
  /** It stands in the place of attention. */
  delta?: Delta
  /** It stands in the place of attention, or beside it. */
  selective?: Selective
  /** It stands in the place of attention. */
  scan?: Scan
  /** Where there are experts, one of them. */
  mlp: Mlp
  experts?: Experts
  /** What attention reads is added to what it gives, by way of so many columns as well, and the sum is divided by the root of 2. */
  laurel?: { rank: number }
  /** What each of its matrices reads and gives stays between stored numbers. */
  bounded?: true
  /** What it leaves is multiplied with a stored number. */
  scaled?: true
}

/** Every head has keys of its own, and every matrix a bias. */
export interface Cross extends Pick<SelfAttention, "heads" | "headDim" | "scale"> {
  /** How many there are; absent: each recording has its own number, and the step says which a token sees. */
  rows?: number
}

/** One of a decoder's. */
export interface CrossHead {
  layer: number
  head: number
}

export interface NormKind {
  kind: "rms" | "layer"
  epsilon: number
  bias: boolean
}

/**
 * Which norms a block has, of what is read and of what is given. A parallel MLP without a norm of its own reads the
 * attention's.
 */
export interface Norms {
  beforeAttention: boolean
  afterAttention: boolean
  beforeMlp: boolean
  afterMlp: boolean
  /** Of both sums: what was read and what attention or MLP gives. */
  sums?: true
  /** The epsilon of those of what is given, where it is not the block's. */
  behind?: number
}

export interface SelfAttention {
  heads: number
  kvHeads: number
  headDim: number
  /** Of the product of query and key. */
  scale: number
  /** Scores are bent below it. */
  cap: number | undefined
  /** Positions a token sees, itself included; undefined: all before it. */
  window: number | undefined
  /** It sees those from the last multiple of the window on. */
  chunked?: true
  /** It sees as many after it. */
  bidirectional?: true
  /** A row of an image sees those behind it. */
  mutual?: true
  /** How queries and keys are turned; undefined: they are not. */
  rotation: { query: Rotation; key: Rotation | undefined } | undefined
  /** Of queries and keys, before or after they are turned. */
  norms: HeadNorms | undefined
  /** Queries and keys, before they are turned, and values are cut off beyond it. */
  clip?: number
  /** What heads give, gated if it is, has a norm over all of them before it is projected back. */
  normed?: NormKind
  /**
   * Queries, once they are turned, and gates are multiplied with a learned number for each column: the square of what is stored times
   * these.
   */
  weighed?: { query: number; gate: number }
  bias: { qkv: boolean; o: boolean }
  /** Each head has a learned score of what is not there, which takes its share of every softmax. */
  sinkLogits?: true
  /**
   * Scores have biases by distance (`attention_biases`), which are the same in all layers, of a context of so many positions. `slopes`:
   * a score loses that of its head for each position between; else they are learned.
   */
  biases?: { positions: number; slopes?: readonly number[] }
  /** Scores have two parts more, which hang on either token and the distance. */
  relative?: Relative
  /** Values have so many columns each, where these are fewer than a key's, and are multiplied with a number. */
  values?: { columns: number; factor: number }
  /** Values are the keys as they were projected. */
  valuesAreKeys?: true
  /** Values are normed head by head, without a weight. */
  normsValues?: true
  /** The layer whose keys and values are read: it has none itself. */
  reads?: number | undefined
  /** What is projected beside the queries, for each column or each head, gates what heads give: it is multiplied with its sigmoid. */
  gated?: "columns" | "heads"
  /** Or with this. */
  gate?: "softplus"
  /** Keys and values of all heads are made of one row, which is what is remembered. */
  latent?: Latent
}

/**
 * Disentangled attention: for each bucket of distances, `span` of them before a token and as many behind, a row is learned, which a
 * layer's queries meet by way of one matrix (`position_keys`) and its keys by way of another (`position_queries`).
 */
export interface Relative {
  /** How many positions there are. */
  positions: number
  span: number
  /** From here on distances count as the furthest. */
  most: number
  /** Distances further off share a bucket, the more the further (`bucketOf` of weights/biases.ts). */
  shared?: true
  /** Rows go through matrices of their own, and not through those of queries and keys. */
  apart?: true
  /** Rows have a LayerNorm with this epsilon; absent: none. */
  epsilon?: number
}

/**
 * A token is remembered as `rank` numbers and one key of `turned` columns, which all heads share; in some models nothing turns them. Each
 * head makes `straight` more columns of key and a value of those numbers by matrices of its own.
 */
export interface Latent {
  rank: number
  /** Queries go through so many columns and a norm; undefined: they are projected at once. */
  queryRank: number | undefined
  straight: number
  turned: number
  value: number
  /** Of the norms over rank and queryRank columns. */
  epsilon: number
  /** What chooses which positions are seen; `before`: what the last layer that has one chose is seen here, too. */
  indexer?: Indexer | "before"
}

/**
 * DeepSeek Sparse Attention: queries of heads, made of those `queryRank` columns, meet one key for each position, and where the sum of
 * what they give is highest, each weighed by the token, is seen: in so many positions at most.
 */
export interface Indexer {
  heads: number
  headDim: number
  top: number
  /** How many positions there are. */
  context: number
}

/**
 * The gated delta rule: queries, keys and values of heads, each column convolved with so many taps, change a state and read it; what
 * they read is normed head by head and gated.
 */
export interface Delta {
  keyHeads: number
  valueHeads: number
  keyDim: number
  valueDim: number
  taps: number
  /** Filters of queries, of keys and of values have a tensor each. */
  tapsApart?: true
  /** Of the norm of what was read, where it is not the block's. */
  epsilon?: number
  /** A value that is remembered takes up to so many times what it differs by, where that is not once. */
  most?: number
  /**
   * Kimi Delta Attention: each column of a key has a decay of its own. Decays and gates are projected by way of so many columns, and
   * what was read is multiplied with the sigmoid of its gate.
   */
  byColumn?: { rank: number }
  /** Value heads of a key head lie as far from each other as there are key heads, and not side by side. */
  tiled?: true
}

/**
 * A selective state space (Mamba 2): values of heads, and keys and queries of groups of them, each column convolved with so many taps,
 * change a state and read it; what they read is gated, then normed group by group.
 */
export interface Selective {
  groups: number
  heads: number
  /** Of a key, and of a value. */
  stateDim: number
  headDim: number
  taps: number
  /** Convolved columns have a bias each. */
  bias: boolean
  /** What is done to what they read; absent: it is gated, then normed. */
  behind?: "normed, then gated" | "gated"
  /** What is projected is multiplied with: gates, values, keys, queries and steps; and what is projected back. */
  factors?: Readonly<Record<"z" | "v" | "k" | "q" | "a" | "out", number>>
  /** Attention reads the same row, and what it gives, times this, is added. */
  beside?: { attention: number }
}

/**
 * A selective state space whose columns have steps of their own (Mamba 1): values, each column convolved with so many taps, make keys,
 * queries and steps of all columns, by way of `rank` columns, and change a state and read it; what they read is gated.
 */
export interface Scan {
  columns: number
  /** Of a key. */
  stateDim: number
  rank: number
  taps: number
  /** Convolved columns have a bias each. */
  bias: boolean
  /** Of what steps are made of, of keys and of queries, which each have a norm. */
  normed?: { epsilon: number }
}

export interface HeadNorms extends NormKind {
  /** One weight for every head, one for each, or one norm over all heads together. */
  over: "every head" | "each head" | "all heads"
  place: "before" | "after"
  /** The weights of each head are stored in one. */
  inOne?: true
}

export interface Mlp {
  /** activation(gate) * up, or without a gate activation(up). */
  gated: boolean
  activation: Activation
  /** In its place, without a gate: xIELU, of which two numbers are learned. */
  xielu?: true
  /** In its place, without a gate: what is above 0. */
  rectified?: true
  /** Of gates counts what they are more than so many deviations above the mean of all of them. */
  above?: number | undefined
  /** What is projected back has a norm first. */
  normed?: NormKind
  intermediate: number
  /** Of all matrices, or of the one that projects back. */
  bias: boolean | "down"
  /** What is projected is multiplied with a learned number for each column, which is stored so many times smaller. */
  weighed?: number
  /** What gates were activated to is cut off above it, and what they are multiplied with on either side. It is 0.3 at the least. */
  limit?: number
  /** What gates are multiplied with before they are activated, and what is given in the end. */
  factors?: { gate: number; down: number }
}

/** MLPs in the place of one, of which a token goes to a few. */
export interface Experts {
  count: number
  routing: Routing
  /** Chosen by scores and a bias (`mlp.gate.e_score_correction_bias`). */
  chosenByBias: boolean
  /** What the router says is bent below it before it is scored. */
  cap?: number
  /** What is multiplied with a chosen expert's weight is what it reads, of which there is one a token, and not what it makes. */
  weighed?: "input"
  /** They read so many columns that the row is projected to, and what they make is projected back. */
  latent?: number | undefined
  /** Beside them an MLP that all tokens go to, as wide as this, in some with a gate of its own. */
  shared: { intermediate: number; gated: boolean } | undefined
  /**
   * They stand beside this MLP, which reads the normed row. They read the row as it was, under a norm of their own, and so does
   * the router; what either makes is normed, and experts are multiplied with a stored number each.
   */
  beside?: Mlp
  /** The router has a bias, and so has every matrix. */
  biased?: true
  /** A learned row is added to what they make together. */
  addend?: true
  /** Gates, and what they are multiplied with, are cut off by it: how, hangs on the activation, as the graph's experts say. */
  limit?: number
}

/** What xIELU multiplies with on both sides of zero, whatever is learned. */
export const XIELU_BETA = 0.5

/** The configuration with every layer made anew. */
export function withBlocks<Config extends { blocks: readonly Block[] }>(
  config: Config,
  change: (block: Block, layer: number) => Block,
): Config {
  return { ...config, blocks: config.blocks.map(change) }
}

/** The block with another attention. */
export function withAttention(block: Block, attention: Partial<Block["attention"]>): Block {
  return { ...block, attention: { ...block.attention, ...attention } }
}

export function withMlp(block: Block, mlp: Partial<Block["mlp"]>): Block {
  return { ...block, mlp: { ...block.mlp, ...mlp } }
}

/** Norms in other places than llama's, which stand before attention and MLP. */
export const NORMS = {
  before: { beforeAttention: true, afterAttention: false, beforeMlp: true, afterMlp: false },
  after: { beforeAttention: false, afterAttention: true, beforeMlp: false, afterMlp: true },
  both: { beforeAttention: true, afterAttention: true, beforeMlp: true, afterMlp: true },
  /** After what was read has been added. */
  sums: {
    beforeAttention: false,
    afterAttention: false,
    beforeMlp: false,
    afterMlp: false,
    sums: true,
  },
  /** One for both, of a parallel block. */
  shared: { beforeAttention: true, afterAttention: false, beforeMlp: false, afterMlp: false },
} as const satisfies Record<string, Block["norms"]>
