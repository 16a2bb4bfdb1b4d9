// A device is opened once in a process, by the program that wants it first, and lent to all the others: a model, its draft,
// five heads. Loans are counted; the last one that is given back closes the device, and who comes later opens it anew.

export interface OpenDevice {
  /** Called once, when no program has it any more. */
  close(): Promise<void>
}

export interface Loan<Device> {
  readonly device: Device
  /** A second time it does nothing. */
  giveBack(): Promise<void>
}

/** The opened devices of one kind, by their numbers. */
export class OpenDevices<Device extends OpenDevice> {
  readonly #lent = new Map<number, { opening: Promise<Device>; loans: number }>()

  /** Rejects as `open` does; whoever waited for the same opening is told the same. */
  async borrow(id: number, open: () => Device | Promise<Device>): Promise<Loan<Device>> {
    const entry = this.#lent.get(id) ?? { opening: (async () => open())(), loans: 0 }
    this.#lent.set(id, entry)
    entry.loans++
    let isBack = false
    const letGo = () => {
      if (isBack) return false
      isBack = true
      if (--entry.loans > 0) return false
      this.#lent.delete(id)
      return true
    }
    try {
      const device = await entry.opening
      return {
        device,
        giveBack: async () => {
          if (letGo()) await device.close()
        },
      }
    } catch (error) {
      letGo()
      throw error
    }
  }
}
