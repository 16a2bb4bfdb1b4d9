// Imported before all else, has a process take itself for a Mac where it asks what drivers are called, and nowhere else. With the stand-in
// preloaded it then finds Metal's devices.

const { platform } = process

Object.defineProperty(process, "platform", {
  get: () => (new Error("here").stack?.includes("driverLibraries") ? "darwin" : platform),
})
