// What is called of Vulkan before there is a device, by the names and types of vulkan_core.h.

import type { DriverLibrary, Pointer } from "../ffi.ts"

export type InstanceFunctions = ReturnType<typeof takeInstanceFunctions>

export function takeInstanceFunctions({ take }: DriverLibrary) {
  return {
    find: take<Pointer | null>("void *vkGetInstanceProcAddr(void *instance, const char *name)"),
    createInstance: take("int32_t vkCreateInstance(void *info, void *allocator, void *instance)"),
    destroyInstance: take<void>("void vkDestroyInstance(void *instance, void *allocator)"),
    enumerate: take(
      "int32_t vkEnumeratePhysicalDevices(void *instance, void *count, void *devices)",
    ),
    extensions: take(
      "int32_t vkEnumerateDeviceExtensionProperties(void *device, void *layer, void *count, void *properties)",
    ),
    queues: take<void>(
      "void vkGetPhysicalDeviceQueueFamilyProperties(void *device, void *count, void *properties)",
    ),
    createDevice: take("int32_t vkCreateDevice(void *physical, void *info, void *_, void *out)"),
    destroyDevice: take<void>("void vkDestroyDevice(void *device, void *_)"),
    // From 1.1 on.
    properties: take<void>("void vkGetPhysicalDeviceProperties2(void *device, void *properties)"),
    features: take<void>("void vkGetPhysicalDeviceFeatures2(void *device, void *features)"),
    memory: take<void>("void vkGetPhysicalDeviceMemoryProperties2(void *device, void *memory)"),
  }
}
