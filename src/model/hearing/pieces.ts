// How a decoder is asked for what is said in a piece of a recording, whose rows stand before all tokens (Moonshine).

export interface PieceAdvice {
  /** The token that asks. */
  begin: number
  /** Tokens at the most, that one among them. */
  most: number
}
