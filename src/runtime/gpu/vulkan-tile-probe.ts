// What a driver of Vulkan leaves open of tiles: that every thread holds eight elements of a product, and can be told which ones by a
// tile of numbers. Both are kernels' to rely on, so a product of tiles that look random is computed once a device is opened,
// with every shape that the driver names, and a shape of which one element is wrong, or which the driver then refuses, is not used.

import { inflateRawSync } from "node:zlib"
import { ProgramLost } from "../program.ts"
import type { GpuDevice, Place } from "./device.ts"
import { type TileShape, tileShapes } from "./tile-shapes.ts"

const THREADS = 32
/** Rows and columns of the product, and how many numbers each has. */
const [SIDE, DEPTH] = [16, 32]

/**
 * Of the shapes that a device names, those that it multiplies as kernels want it.
 * @throws ProgramLost where the device is lost over one
 */
export async function probeTiles(device: GpuDevice): Promise<TileShape[]> {
  const named = device.traits.tiles
  if (named.length === 0) return []
  const { rows, columns, product } = probeTile()
  const places = await Promise.all(
    [rows, columns, product].map(({ byteLength }) => device.allocate(byteLength, "host")),
  )
  const right: TileShape[] = []
  try {
    await device.write(places[0]!, 0, new Uint8Array(rows.buffer))
    await device.write(places[1]!, 0, new Uint8Array(columns.buffer))
    const modules = probeModules()
    for (const shape of named) {
      const own = await productBy(device, modules[tileShapes.indexOf(shape)]!, places)
      if (own?.every((sum, i) => sum === product[i])) right.push(shape)
    }
  } finally {
    for (const place of places) device.free(place)
  }
  return right
}

/** What the device makes of two tiles in the first places; undefined where its driver refuses the kernel, or to run it. */
async function productBy(
  device: GpuDevice,
  module: Uint8Array,
  places: readonly Place[],
): Promise<Int32Array | undefined> {
  const own = new Int32Array(SIDE * SIDE).fill(-1)
  try {
    const [kernel] = await device.load([module], [code])
    await device.write(places[2]!, 0, new Uint8Array(own.buffer))
    const operands = places.map((place) => ({ place, at: 0 }))
    const recording = device.record([{ kernel: kernel!, operands, groups: [1, 1, 1] }])
    try {
      await device.run([recording], new Int32Array(new SharedArrayBuffer(4)))
    } finally {
      recording.free()
    }
    await device.read(places[2]!, 0, new Uint8Array(own.buffer))
    return own
  } catch (error) {
    if (error instanceof ProgramLost) throw error
    return undefined
  }
}

const code = {
  name: "tiles",
  module: 0,
  entry: "tiles",
  threads: THREADS,
  sharedBytes: 4096,
  operands: ["buffer", "buffer", "buffer"],
} as const

/** Rows of the one tile and columns of the other, and what their product is. */
export function probeTile() {
  let state = 1
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state >>> 24
  }
  const [rows, columns] = [0, 1].map(() => Int8Array.from({ length: SIDE * DEPTH }, next)) as [
    Int8Array,
    Int8Array,
  ]
  const product = Int32Array.from({ length: SIDE * SIDE }, (_, i) => {
    const [row, column] = [Math.floor(i / SIDE) * DEPTH, (i % SIDE) * DEPTH]
    return Array.from({ length: DEPTH }, (_, k) => rows[row + k]! * columns[column + k]!).reduce(
      (sum, each) => sum + each,
    )
  })
  return { rows, columns, product }
}

/** A kernel for each shape, as print/spirv.ts prints it; test/device/tiles.test.ts has it, and compares. */
export function probeModules(): Uint8Array[] {
  const words = inflateRawSync(Buffer.from(packedModules, "base64"))
  let end = 0
  return moduleBytes.map((bytes) => {
    end += bytes
    return words.subarray(end - bytes, end)
  })
}

const moduleBytes = [3448, 3636, 3448, 3448, 3996, 5068, 5404]
const packedModules = [
  "7Zt5dFXVFcZPkpeAxIqJGMERIaggQkRBFAMRB6hiJGGIrQMqAUFGmcSKgDJPYY52UHFCW21rta11RnEesFqtOKAMarVatX+0",
  "q+1aXauc+34bP4/3UZb+Aa51shbrsb+zz77f2Xefc++3X1KQ37aJK8xz/meZy/6UuHyXx+e2FtnPLXzOPSD7Wcl4MZ9H8jmh",
  "JPs5kc/xJc41c03dgP6Dh5zVt3bI0HHjxg+bcPGkkVOGDRlz8aQJI6c6V+yKkuv16TegX6eJk+o7Hd+1wvPYxxW491s4V+Cc",
  "a+6KXaFzLuOcmzRy9LCJzrmmzrnDnXNtnHNHOOeOcs71276OfV1R4lfinGvtXBI7L8EzCT6mJIubPTawR2H3cQWuyDmX75zr",
  "6wqT//uftnwalgfWVLB8sH2TOBm3j3MJniFuc4nb/GtxMzuwlsw/MJh/kMw/KJjv/X0u/L05BLsftsf3c/lJTvd3mSSnVcw7",
  "FO6F8q+1y7gmzrm9uH4P7KZgfnwv/l9IzGbk3f8cjV2MfYgrSHLRLLleNg/7EMfn6oMWLsFsXin5NbuMdfvrtJL76+P6HLUi",
  "rs/JgcQ9mLgHSZxDt697nXPuYJdxh+3gk/VvTZ4PY72tqbOM2G2wLV6S+7xsvHLitSVeO3zLmd+Oes0wfiRraMb4kdwnXXcH",
  "1trC5btjmXccMZqJX9ftPGaKXcm9MruXc25v5p9GXnT+Wb6m8r7k0S/gUUNNmz3YZffniJImro78D8avhvvl79Vl8MjDd5Rz",
  "CWa+HagRPzZaxjow7uugkytIrjEF/nPh3yq5PwVuKVy6ucLkM0PNefxfLj+pm0p4tyfHZp/NWk9xhUkt7w3fYnx8bX8PfCq1",
  "WgJmc/ZjTqnMaQFuc/YHszkHMKdM5rQEn0rtHgL2b5fvjmYt/vMfrknCvYL1+PV1ds4dsx27xxUmddKFcV+L/3QZ14lx//Mf",
  "l0nGOya5zcbtCDdfW8dTp35+T1eY2BXkrQw+xzDvmKTuChM+nfHrEHDuhN0Nu5usoQdr8D4nOee6yxpOZrwraziRcVuDHz/B",
  "uQT3cf3/58KlJ3P9PpgNVgXu98ICsFNS/HqDl8raTmV+dqwo2UOnUwvFO2IUJb5nMJZPLVpe+3CenEpe++BrebW4famXMO73",
  "GQvjnsm5ZHHPxFfvV3dy1F3WdBLxOwT3x+dzs8skc8s4G55hTjV7plhyfQ54qeS1v2CW11p8awQbgK9iA/GtEa6DwAfIus+l",
  "Tv3YyJKmyRnxA/Bi5lewhhpXmJwXP8THCXYeWJ5g54PlC3YBWIFgF4JlBBsCVijYRWBFgl0M5p+r0ziPLoGj2UPhZ3Y93Mwe",
  "Bi+zh8PJ7EvhY/YIuJg9Eh52f8ek3N+x4Hp/xwlm9208vnovL8dXsQn49pL7O5FrThC/ScxXv8n4TRLsCplv2FTxtXq5kv13",
  "BfXin0U/Ai/mOhU79mJ2zlXsranMGZ3kLouXBnNG8Sy8mrjTeGY1l3s+nXGtvxlgWn8zwbT+rgHT+rsWTOtvFpjW32wwrb85",
  "YE04e/xzdR7PnWJq0Z8n8+D95bmT9Z0vvkPxnc96Qt8F4luP7wLWGfouFN9h+C5k/aHvIvEdju8i8hL6LhbfS/FdTL5C3yXi",
  "OwLfJeQx9G0Q35H4NpBf8/2vy3PdXZ4rEN11fdRdUXdF3RV1127QXTU5dFdNDt1l158ueWwIdNh1OXTYdVGHRR0WdVjUYVGH",
  "RR22m3WY8ZoB1+mCzYTrdLnuNXCdIVyvBc/FdRZcZwrX2eC5uM4hruk01YxzGde9Mg9M98p80RyGLQDTvbIQTPfKIjDdK4vB",
  "dK8sATPN2ECfNdSMS+GtWqmB75pCzbiM9YS+y1M043LWGfquSNGMK1h/6LsyRTOuJC+h76oUzbiKfIW+q1M042ryGPo2pmjG",
  "RvK7M80Yv6uLmjFqxqgZd6YZa3dRM1biuyuasfL/fFdXG7+rixoxasQ9UiOWfgONWINvZYpGrA00Yg3Yt9GItVEjfmONWPot",
  "NGJlikasjd/Vxe/q4nd1UXdF3RV1V9Rdu6y7qjnvzR5Ijavuqua6lbugu6p3oruqwSuj7oq6K+quPUp3ncOeqZZc9wcvk7zW",
  "CKbfzfVP0V01ATYI34HCdTB4mu4anEN3DYy66xvrruoU3VWWorvKdlF3VUbdFXVX1F1f0V13RN0VdVfUXVF37QbdVZlDd1Xm",
  "0F12/TnBfVhCnfr13RDosrU5dNnaqMuiLou6LOqyqMuiLttDfmdyOlzLgt+jnBxcdyZcpwvXa8Bzcb0WrjOE6yzwXFxnE3eW",
  "/M6k8ZoL1zmCzYPrHLnufLjOFa4LwHNxXQjXecJ1EXgurouJuwjeyrUBrksEWwrXJXLdZXBtEK7LwXNxXQHXpcJ1JXgurquI",
  "uxLeqs1XM65nUCOYnkHXgekZdD2YnkE/BtMz6Cdgegb9FEzPoJ+BmTb371Y3pmjzG+GtmtT73pSizW9iPaHvmhRtvoZ1hr43",
  "p2jzm1l/6HtLija/hbyEvremaPNbyVfoe1uKNr+NPIa+t6do89vJ7860+bZvoc334rOmZPdo9Da8Xx7FO8SiqNET/w6BRl8U",
  "NXqClbmCRIvr71V6LT4zP6uvW6PVD2Pu4Tu0dHbth4s+N7stto9djq/Fbifa/Qh0ejvR5hneH1Wbm3ZvH2j39tS45qOjaPfj",
  "mNdVegLm1z3Q7lWBdu/Ntc0+XXj0FS3fmn5Phjypdm+J3Yr36ZYyXhfkvD7Q+gulN9CefWx6fhVrqSdOHXXgx26Ch46Z1l+T",
  "MmZa38f8Bet5IdDyW3No+a0pWv7oHd/fZu3FcN/TtbxqZ9PBXViPX9+xaOl7RI93oXa9Dq5g3HTw8ejnCtHbnlvXJI/Z2uqS",
  "vHNne1gnYPtnVDds1YqdidNZ3qWsp9AxWEMF9omiHW1NPVlTBe//PWRNvRjvzppM69uaeqFPTybuSaJHTmFulWiFU8F7i0Y5",
  "LcXvDPDTZW19mH8Gz/O+6GfT9j1Fg5u2tme6xTiLOKY3+qGj2jD2pOjnM9mz09ivpp/X805WK39HOI57NgB8ossk+8p+N9Tf",
  "w7Oxjwp0xSA4lQqnwXAaJJzOhVOdcDIdvT7QzcrpPHDjdD6Y5zQYO+R0AZzKhNOFcLpAOA2BU5Vwugh8vejniwJOl4Abp6Hy",
  "DnshdshpGJzqhdNwOA0TTpfCqVg4jQA3TiPBlNNl4MbJeqSe03Bs7QH5+hstPSCtvzGMhfU3NqX+xvF8HCtrGE8Mrb/LwW0N",
  "E8B0DRPBbQ2TwPwaxmGHeZ2cUn9T4DRZOF0BJ62/qeDG6Uow5WTa3ThdBeY5TcEOOU1Lqb+r4TRNOE2Hk9bfDPD18t3pjICT",
  "aXTjZH/n6DldjR1ympVSf7PhNEs4zYGT1p/9XeN6+ZvGuQGn+eDGybS55zQbW8//Hpy5PYRjJXXYMTjvTw56hQull7SEZ7L+",
  "/W0DuP5u9VLB7Jxehm+dYMvxVWwFvnXC1bT5cnkOrmaNK9Hwq9Coq+FXF/QKy9GljaLTy9GfjaLTy9GZjaLTy9GTjaLTy9GN",
  "jaLTy9GHjaLTPXYDWJFgN4I1kfzenJLfW8A1v7cKZnm7DV/N5e34KrYW396S3zu45lrxu5P56vdz/O4U7C6Zb9jd4mv1/0vO",
  "37u4X/5d81fgxVynItjHv2bP3M2cNcn7RhYvDeaMKilKauA3xL2Hd1LjdC88ta7ug2edXPO38LxXeP4OPBfP38PzPuF5P3gu",
  "nn8g7v1wtrp4gDGt0QfBtEYfAtMafRhMa/QRMK3RR8G0Rh8D0xpdB9YkeeZkz6fH4Wj2E/Azez3czH4SXmY/BSezn4aP2c/A",
  "xexn4WH2c+xj63c/D+afs157vCh9m+c5E1+Etz1jLdZL7H+LtQHMYr0ssTYQ62XWHMb6I+eGxXoFzGK9KrFeIdar5CuM9SfO",
  "G4v1GpjFel1ivUas18l1GOvPnFMW6w0wi7VRYr1BrI3cpzDWm5xvFustMIv1tsR6i1hvc4/DWO9wLlqsTWAW612JtYlY71If",
  "Yaz3OE8t1mYwi7VFYm0m1hZqa2e9vL/HXl7s5cVeXuzlfQd6eVX8S+vl2VhaL8/G0np5bwa9vC9y9PK+iL282MuLvbzYy4u9",
  "vNjLi72871Qvrz6ll1eW0ssrS+nlVaX08qpiL+8rvbz6lF5eWUovryyll1eV0surir28Hb28qpReXtUe0MszTg+k9BwfTOk5",
  "PgTPB4Tnw+C5eD4CzweF56PguXg+Rlzr/xmndfCsFuxxeFbLNZ+A5zrhuR48F88n4fm48HwKPBfPp4n7FJxtnz3DmO75Z8F0",
  "zz8nPSfDngfTPf8CmO75F8F0z78Epnt+A5j2Rl+Go/YEnxX7FbiZ/Sq8tO/3gtivwcfs1+Givb0NYr8R9EY3gvn3ljfpyVkf",
  "bCPPmLfgHfbU3g56o++AWaxNEusdYm1izWGsd4Pe6HtgFmuzxHqPWJvJVxhrS9Ab3QpmsbZJrK3E2kauw1jvB73RD8As1ocS",
  "6wNifch9CmP9JeiNfgRmsT6WWB8R62PucRjrr0Fv9BMwi/WpxPqEWJ9SH2GsvwW90c/ALNbnEuszYn1ObYW90f8B",
].join("")
