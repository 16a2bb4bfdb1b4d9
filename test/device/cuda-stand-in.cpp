// Stands in for CUDA's driver, and for HIP's with its compiler: devices that are this processor, one or as many as STAND_IN_DEVICES
// says. What they take for PTX is the kernels' text, which is compiled and run thread by thread (simt.hpp); so is HIP's. Nothing of a stream happens before somebody waits
// for it; memory begins as nonsense and ends at a page that nobody may touch; a call without a context is refused, and an
// address, a graph or a kernel that is none of its context's device. Of several orders of threads it takes the shuffled one.
//
// Copies to and from memory of the host that the driver keeps in its place are made when their turn comes, whatever has happened to
// that memory; any other is made at once, behind all that was handed over, and whoever hands kernels over may not wait so.
//
// With STAND_IN_PEERS devices reach each other, the memory of those alone that they have been let into, and nothing keeps order between
// them but events: a device does what it was handed as late as it can, which is when somebody waits for it or for an event of its.
//
// With STAND_IN_HOPPER they are of compute capability 9.0: a kernel that waits for the one before it itself must be ordered so, and one
// of matrix units must not, which is to have the device for itself.
//
// Where there is a file of the name that STAND_IN_LOST says, the devices are lost, with the code that stands in it. With STAND_IN_OLD no PTX is old enough for
// the driver, and HIPRTC compiles nothing. It is NVRTC as well: what that makes of text is the text, behind a mark where it is to be an architecture's code.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace {

enum { DONE = 0, INVALID = 1, NO_MEMORY = 2, NO_BINARY = 209, BAD_PTX = 218, NEW_PTX = 222, NO_CONTEXT = 201, NO_PEER = 217, BAD_HANDLE = 400, NOT_FOUND = 500, BAD_ADDRESS = 700, IS_PEER = 704, LOST = 719, WAITS = 999 };
#define ELF "\x7f" "ELF"
// What the stand-in of NVRTC writes before the text that it is given.
#define PTX "// PTX\n"
#define CAPABILITY "sm_75"
constexpr size_t total = 1ul << 30, page = 4096;

struct Kernel {
  const char *name;
  unsigned threads;
  const char *operands; // b: an address, w: a word
};
using Launch = int (*)(int, void **, const unsigned *, int);
struct Function {
  Launch launch;
  Kernel kernel;
  int number;
};
struct Node {
  const Function *function;
  unsigned groups[3];
  std::vector<uint64_t> values;
  bool has_order; // with the one before it
};
using Graph = std::vector<Node>;

using Allocated = std::map<uint64_t, size_t>; // by address
struct Device { // its address is its context
  int contexts;
  Allocated allocated;
  std::set<const Function *> functions;
  std::set<Graph *> graphs;
  std::map<void *, std::shared_ptr<Graph>> launchables;
  std::set<void *> streams;
  std::set<Device *> peers; // whose memory it reaches
  std::deque<std::function<int()>> queue;
  uint64_t handed, done; // how much ever was in the queue, and how much of that has left it
  int sticky;
  void hand(std::function<int()> work) { queue.push_back(work), handed++; }
};
struct Event {
  Device *device;
  uint64_t at; // how much the device had been handed; 0: never recorded
};

std::mutex mutex;
Device devices[8];
thread_local Device *current;
std::set<Event *> events;
Allocated kept; // of the host, in its place
thread_local bool hands_over;
std::atomic<bool> held;
/** Before the lock is taken, so that others may go on. */
void wait_while_held() {
  while (held) usleep(100);
}
struct {
  int devices, are_peers; // 0: the environment says it
  uint64_t reads, writes, peer_copies;
} machine;

int device_count() {
  if (machine.devices) return machine.devices;
  const char *count = getenv("STAND_IN_DEVICES");
  return count ? atoi(count) : 1;
}

bool is_hopper() { return getenv("STAND_IN_HOPPER"); }
bool are_peers() { return machine.are_peers || getenv("STAND_IN_PEERS"); }

bool is_inside(const Allocated &allocated, uint64_t at, size_t bytes) {
  auto above = allocated.upper_bound(at);
  if (above == allocated.begin()) return false;
  const auto &[from, length] = *--above;
  return at + bytes <= from + length;
}

/** In one of them; 0: in none. */
const Device *owner(uint64_t at, size_t bytes) {
  for (const Device &device : devices)
    if (is_inside(device.allocated, at, bytes)) return &device;
  return nullptr;
}

/** Does what the device was handed, as far as some number of it. */
int advance(Device &device, uint64_t to) {
  while (device.done < to && !device.sticky) {
    const auto work = device.queue.front();
    device.queue.pop_front(), device.done++;
    device.sticky = work();
  }
  return device.sticky;
}

/** A copy between the device and the host, where that has its memory at some place. */
int copied(Device &device, uint64_t host, size_t bytes, std::function<int()> copy) {
  device.hand(copy);
  if (is_inside(kept, host, bytes)) return DONE;
  return hands_over ? WAITS : advance(device, device.handed);
}

int run(const Graph &graph, const Allocated &allocated) {
  for (const Node &node : graph) {
    std::vector<void *> operands;
    for (size_t i = 0; i < node.values.size(); i++) {
      if (node.function->kernel.operands[i] == 'b' && !is_inside(allocated, node.values[i], 1)) return BAD_ADDRESS;
      operands.push_back((void *)&node.values[i]);
    }
    if (!node.function->launch(node.function->number, operands.data(), node.groups, 2)) return LOST;
  }
  return DONE;
}

/** What the file says that a lost device answers, if there is one. */
int loss() {
  const char *name = getenv("STAND_IN_LOST");
  std::ifstream file(name ? name : "");
  int code = LOST;
  if (!file) return DONE;
  file >> code;
  return file ? code : LOST;
}

/** The kernels' text with a table of what is in it. */
std::string with_table(const std::string &text) {
  static const std::regex head("THREADS\\((\\d+)(?:, \\d+)?\\) (\\w+)\\(([^)]*)\\) \\{");
  std::string rows;
  for (std::sregex_iterator at(text.begin(), text.end(), head), end; at != end; at++) {
    const std::string name = (*at)[2], parameters = (*at)[3];
    std::string kinds;
    for (size_t from = 0; from < parameters.size();) {
      const size_t to = std::min(parameters.find(',', from), parameters.size());
      kinds += parameters.substr(from, to - from).find('*') != std::string::npos ? 'b' : 'w';
      from = to + 1;
    }
    rows += "{\"" + name + "\", " + (*at)[1].str() + ", \"" + kinds + "\", [](void **values) { simt::call(" + name + ", values); }},\n";
  }
  return "#include \"" SIMT "\"\n" + text +
         "\nstatic const struct { const char *name; unsigned threads; const char *operands; void (*call)(void **); } kernels[] = {\n" + rows +
         "};\nextern \"C\" int count() { return sizeof kernels / sizeof *kernels; }\n"
         "extern \"C\" void describe(int i, const char **name, unsigned *threads, const char **operands) {\n"
         "  *name = kernels[i].name, *threads = kernels[i].threads, *operands = kernels[i].operands;\n}\n"
         "extern \"C\" int launch(int i, void **values, const unsigned *groups, int order) {\n"
         "  return simt::launch(kernels[i].call, kernels[i].threads, values, groups, order);\n}\n";
}

struct Built {
  std::string code, words;
};

std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Folder {
  char path[32] = "/tmp/stand-in-XXXXXX";
  Folder() { mkdtemp(path); }
  ~Folder() {
    for (const char *name : {"/kernels.cpp", "/kernels.so", "/log"}) unlink((path + std::string(name)).c_str());
    rmdir(path);
  }
};

/** The kernels as a library's bytes; none, and the compiler's words, where it is refused. Several devices are handed one text. */
const Built &build(const std::string &text) {
  static std::map<std::string, Built> known;
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  const Folder folder;
  const std::string base = folder.path, library = base + "/kernels.so", log = base + "/log";
  std::ofstream(base + "/kernels.cpp") << with_table(text);
  const std::string command = "g++ -std=c++17 -O0 -D__gfx90a__ -ffp-contract=off -fwrapv -shared -fPIC -w -o " + library + " " + base + "/kernels.cpp 2>" + log;
  const int failed = system(command.c_str());
  return known[text] = {failed ? "" : contents(library), contents(log)};
}

std::atomic<int> modules; // that are loaded

void *opened(const std::string &code, std::string &words) {
  if (code.empty()) return nullptr;
  const Folder folder;
  const std::string library = folder.path + std::string("/kernels.so");
  std::ofstream(library, std::ios::binary) << code;
  void *const module = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module) words = dlerror();
  else modules++;
  return module;
}

} // namespace

#define IN_CONTEXT \
  std::lock_guard<std::mutex> lock(mutex); \
  if (!current || current->contexts == 0) return NO_CONTEXT; \
  auto &[contexts, allocated, functions, graphs, launchables, streams, peers, queue, handed, done, sticky] = *current; \
  if (sticky) return sticky;
#define OF_STREAM(stream) \
  if (!streams.count(stream)) return BAD_HANDLE;

extern "C" {

/** For who has it in his own process: as many devices, peers or not. What it counts begins anew. */
void stand_in_machine(int devices, int are_peers) { machine = {devices, are_peers, 0, 0, 0}; }
/** Copies to the host, from it, and between devices. */
void stand_in_counts(uint64_t *out) { memcpy(out, &machine.reads, 3 * sizeof *out); }
/** Whoever waits goes on waiting until it is said that nothing is held. */
void stand_in_hold(int is_held) { held = is_held; }
/** Of a device, how much it was handed that it has not done. */
int stand_in_modules() { return modules; }
uint64_t stand_in_pending(int number) { return devices[number].handed - devices[number].done; }

int cuInit(unsigned) { return DONE; }
int cuDriverGetVersion(int *out) { return *out = 12040, DONE; }
int cuDeviceGetCount(int *out) { return *out = device_count(), DONE; }
int cuDeviceGet(int *out, int number) { return *out = number, number >= 0 && number < device_count() ? DONE : 101; }
int cuDeviceGetName(char *name, int length, int) { return snprintf(name, length, "Stand-in"), DONE; }
int cuDeviceGetAttribute(int *out, int what, int) {
  const std::map<int, int> values = {{1, 1024}, {10, 32}, {16, 1}, {18, 0}, {75, 7}, {76, 5}, {97, 49152}};
  if (is_hopper() && (what == 75 || what == 76)) return *out = what == 75 ? 9 : 0, DONE;
  const auto found = values.find(what);
  return found == values.end() ? INVALID : (*out = found->second, DONE);
}
int cuDeviceTotalMem_v2(size_t *bytes, int) { return *bytes = total, DONE; }

int cuDevicePrimaryCtxRetain(void **out, int number) {
  std::lock_guard<std::mutex> lock(mutex);
  return devices[number].contexts++, *out = &devices[number], DONE;
}
int cuDevicePrimaryCtxRelease_v2(int number) {
  std::lock_guard<std::mutex> lock(mutex);
  if (devices[number].contexts == 0) return NO_CONTEXT;
  return devices[number].contexts--, DONE;
}
int cuCtxSetCurrent(void *of) {
  if (of < devices || of >= devices + device_count()) return NO_CONTEXT;
  return current = (Device *)of, DONE;
}

int cuMemGetInfo_v2(size_t *free, size_t *all) {
  IN_CONTEXT
  *free = *all = total;
  for (const auto &[_, bytes] : allocated) *free -= bytes;
  return DONE;
}
int cuMemAlloc_v2(uint64_t *out, size_t bytes) {
  size_t free, all;
  if (const int code = cuMemGetInfo_v2(&free, &all)) return code;
  IN_CONTEXT
  if (bytes == 0) return INVALID;
  if (bytes > free) return NO_MEMORY;
  const size_t whole = (bytes + page - 1) / page * page;
  char *at = (char *)mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(at + whole, page, PROT_NONE);
  memset(at, 0xcd, whole);
  *out = (uint64_t)at + (whole - bytes) / 256 * 256;
  allocated[*out] = bytes;
  return DONE;
}
int cuMemFree_v2(uint64_t at) {
  IN_CONTEXT
  const auto found = allocated.find(at);
  if (found == allocated.end()) return INVALID;
  advance(*current, handed); // drivers wait for the device here
  const uint64_t first = at / page * page;
  munmap((void *)first, (at + found->second + page - 1) / page * page - first + page);
  allocated.erase(found);
  return DONE;
}

int cuStreamCreate(void **out, unsigned) {
  IN_CONTEXT
  *out = new int;
  return streams.insert(*out), DONE;
}
int cuStreamDestroy_v2(void *stream) {
  std::lock_guard<std::mutex> lock(mutex);
  return current && current->streams.erase(stream) ? DONE : BAD_HANDLE;
}
int cuStreamSynchronize(void *stream) {
  wait_while_held();
  IN_CONTEXT
  OF_STREAM(stream)
  if (int code = loss()) return sticky = code;
  return advance(*current, handed);
}
int cuMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, void *stream) {
  IN_CONTEXT
  OF_STREAM(stream)
  if (!is_inside(allocated, at, bytes)) return INVALID;
  current->hand([=] { return memset((void *)at, value, bytes), DONE; });
  return DONE;
}
int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  IN_CONTEXT
  if (bytes == 0 || flags) return INVALID;
  *out = malloc(bytes);
  memset(*out, 0xcd, bytes);
  return kept[(uint64_t)*out] = bytes, DONE;
}
int cuMemFreeHost(void *at) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!kept.erase((uint64_t)at)) return INVALID;
  for (Device &device : devices) advance(device, device.handed);
  return free(at), DONE;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const char *from, size_t bytes, void *stream) {
  IN_CONTEXT
  OF_STREAM(stream)
  if (!is_inside(allocated, to, bytes)) return INVALID;
  machine.writes++;
  return copied(*current, (uint64_t)from, bytes, [=] { return memcpy((void *)to, from, bytes), DONE; });
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  IN_CONTEXT
  OF_STREAM(stream)
  if (!is_inside(allocated, from, bytes)) return INVALID;
  machine.reads++;
  return copied(*current, (uint64_t)to, bytes, [=] { return memcpy(to, (void *)from, bytes), DONE; });
}

int cuDeviceCanAccessPeer(int *out, int device, int other) {
  if (std::max(device, other) >= device_count()) return 101;
  return *out = are_peers() && device != other, DONE;
}
int cuCtxEnablePeerAccess(void *of, unsigned flags) {
  IN_CONTEXT
  if (!are_peers()) return NO_PEER;
  if (of < devices || of >= devices + device_count() || of == current || flags) return INVALID;
  return peers.insert((Device *)of).second ? DONE : IS_PEER;
}
int cuMemcpy2DAsync_v2(const uint64_t *copy, void *stream) {
  IN_CONTEXT
  OF_STREAM(stream)
  enum { UNIFIED = 4 };
  for (const int zero : {0, 1, 3, 5, 7, 8, 10, 12})
    if (copy[zero]) return INVALID;
  const uint64_t from = copy[4], from_stride = copy[6], to = copy[11], to_stride = copy[13], bytes = copy[14], rows = copy[15];
  if (copy[2] != UNIFIED || copy[9] != UNIFIED || bytes > std::min(from_stride, to_stride) || bytes * rows == 0) return INVALID;
  const Device *source = owner(from, (rows - 1) * from_stride + bytes);
  if (!source || (source != current && !peers.count((Device *)source))) return INVALID;
  if (!is_inside(allocated, to, (rows - 1) * to_stride + bytes)) return INVALID;
  machine.peer_copies += source != current;
  current->hand([=] {
    for (uint64_t row = 0; row < rows; row++) memcpy((char *)to + row * to_stride, (char *)from + row * from_stride, bytes);
    return DONE;
  });
  return DONE;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  const uint64_t one_row[] = {0, 0, 4, 0, from, 0, bytes, 0, 0, 4, 0, to, 0, bytes, bytes, 1};
  return cuMemcpy2DAsync_v2(one_row, stream);
}

int cuEventCreate(Event **out, unsigned flags) {
  IN_CONTEXT
  if (flags != 2) return INVALID; // nobody asks when
  *out = new Event{current, 0};
  return events.insert(*out), DONE;
}
int cuEventDestroy_v2(Event *event) {
  std::lock_guard<std::mutex> lock(mutex);
  return events.erase(event) ? delete event, DONE : BAD_HANDLE;
}
int cuEventRecord(Event *event, void *stream) {
  IN_CONTEXT
  OF_STREAM(stream)
  if (!events.count(event) || event->device != current) return BAD_HANDLE;
  return event->at = handed, DONE;
}
int cuEventSynchronize(Event *event) {
  wait_while_held();
  IN_CONTEXT
  if (!events.count(event) || event->device != current || event->at == 0) return BAD_HANDLE;
  if (int code = loss()) return sticky = code;
  return advance(*current, event->at);
}
int cuStreamWaitEvent(void *stream, Event *event, unsigned flags) {
  IN_CONTEXT
  OF_STREAM(stream)
  if (!events.count(event) || event->at == 0) return BAD_HANDLE;
  if (flags) return INVALID;
  current->hand([device = event->device, at = event->at] { return advance(*device, at); });
  return DONE;
}

int cuModuleLoadDataEx(void **out, const char *text, unsigned count, const int *options, void **values) {
  IN_CONTEXT
  if (strncmp(text, ELF, 4) == 0) {
    const std::string mark = ELF CAPABILITY "\n";
    if (mark.compare(0, mark.size(), text, mark.size())) return NO_BINARY;
    text += mark.size();
  } else if (strncmp(text, PTX, sizeof PTX - 1) != 0)
    return NO_BINARY; // text that no compiler has made
  else if (getenv("STAND_IN_OLD"))
    return NEW_PTX;
  const Built built = build(text);
  std::string words = built.words;
  *out = opened(built.code, words);
  if (count == 2 && options[0] == 5 && options[1] == 6) snprintf((char *)values[0], (size_t)values[1], "%s", words.c_str());
  return *out ? DONE : BAD_PTX;
}
int cuModuleUnload(void *module) { return dlclose(module) ? BAD_HANDLE : (modules--, DONE); }
int cuModuleGetFunction(const Function **out, void *module, const char *name) {
  IN_CONTEXT
  const int count = ((int (*)())dlsym(module, "count"))();
  const auto describe = (void (*)(int, const char **, unsigned *, const char **))dlsym(module, "describe");
  for (int i = 0; i < count; i++) {
    Kernel kernel;
    describe(i, &kernel.name, &kernel.threads, &kernel.operands);
    if (strcmp(kernel.name, name)) continue;
    *out = new Function{(Launch)dlsym(module, "launch"), kernel, i};
    return functions.insert(*out), DONE;
  }
  return NOT_FOUND;
}
int cuFuncGetAttribute(int *out, int what, const Function *function) {
  IN_CONTEXT
  if ((what != 0 && what != 5) || !functions.count(function)) return INVALID;
  return *out = what == 0 ? function->kernel.threads : is_hopper() ? 90 : 75, DONE;
}

int cuGraphCreate(Graph **out, unsigned) {
  IN_CONTEXT
  *out = new Graph;
  return graphs.insert(*out), DONE;
}
int cuGraphAddKernelNode(void **out, Graph *graph, void **after, size_t count, const void *parameters) {
  IN_CONTEXT
  struct Parameters {
    const Function *function;
    unsigned groups[3], threads[3], shared;
    void **values, **extra;
  };
  const auto &given = *(const Parameters *)parameters;
  if (!graphs.count(graph)) return BAD_HANDLE;
  if (!functions.count(given.function) || given.extra || given.shared) return INVALID;
  if (given.threads[0] != given.function->kernel.threads || given.threads[1] != 1 || given.threads[2] != 1) return INVALID;
  // Each must wait for the one before it, or be ordered behind it next: kernels without an order could run side by side.
  const std::string name = given.function->kernel.name;
  const bool waits_itself = is_hopper() && name.find("sinter_tiled") != 0 && name.find("sinter_laid16") != 0 && name.find("sinter_laid32") != 0 && name.find("sinter_matrix") != 0;
  const bool is_first = graph->empty();
  if (count != (is_first || waits_itself ? 0u : 1u) || (count && after[0] != (void *)graph->size())) return INVALID;
  Node node = {given.function, {given.groups[0], given.groups[1], given.groups[2]}, {}, is_first || count};
  for (size_t i = 0; given.function->kernel.operands[i]; i++) {
    const void *value = given.values[i];
    node.values.push_back(given.function->kernel.operands[i] == 'b' ? *(const uint64_t *)value : *(const uint32_t *)value);
  }
  graph->push_back(node);
  return *out = (void *)graph->size(), DONE;
}
int cuGraphAddDependencies_v2(Graph *graph, void **from, void **to, const unsigned char *edges, size_t count) {
  IN_CONTEXT
  if (!graphs.count(graph)) return BAD_HANDLE;
  const unsigned char programmatic[8] = {1, 0, 1};
  const size_t last = graph->size();
  if (count != 1 || last < 2 || from[0] != (void *)(last - 1) || to[0] != (void *)last || memcmp(edges, programmatic, 8)) return INVALID;
  return graph->back().has_order = true, DONE;
}
int cuGraphInstantiateWithFlags(void **out, Graph *graph, unsigned long long) {
  IN_CONTEXT
  if (!graphs.count(graph)) return BAD_HANDLE;
  for (const Node &node : *graph)
    if (!node.has_order) return INVALID;
  const auto copy = std::make_shared<Graph>(*graph);
  *out = copy.get();
  return launchables[*out] = copy, DONE;
}
int cuGraphDestroy(Graph *graph) {
  IN_CONTEXT
  if (!graphs.erase(graph)) return BAD_HANDLE;
  return delete graph, DONE;
}
int cuGraphLaunch(void *launchable, void *stream) {
  IN_CONTEXT
  OF_STREAM(stream)
  const auto found = launchables.find(launchable);
  if (found == launchables.end()) return BAD_HANDLE;
  hands_over = true;
  current->hand([graph = found->second, &own = *current] { return run(*graph, own.allocated); });
  return DONE;
}
int cuGraphExecDestroy(void *launchable) {
  IN_CONTEXT
  return launchables.erase(launchable) ? DONE : BAD_HANDLE;
}

// HIP, where a thread names a device by its number and enters nothing.

int hipInit(unsigned) { return DONE; }
int hipDriverGetVersion(int *out) { return *out = 60342131, DONE; }
int hipGetDeviceCount(int *out) { return cuDeviceGetCount(out); }
int hipDeviceGetName(char *name, int length, int number) { return cuDeviceGetName(name, length, number); }
int hipDeviceGetAttribute(int *out, int what, int) { return *out = 0, what == 16 ? DONE : 1; } // integrated
int hipDeviceTotalMem(size_t *bytes, int number) { return cuDeviceTotalMem_v2(bytes, number); }
int hipGetDevicePropertiesR0600(char *properties, int) { return strcpy(properties + 1000, "gfx90a:sramecc+:xnack-"), DONE; }
int hipSetDevice(int number) {
  if (number < 0 || number >= device_count()) return 101;
  devices[number].contexts = 1;
  return current = &devices[number], DONE;
}
int hipMemGetInfo(size_t *free, size_t *all) { return cuMemGetInfo_v2(free, all); }
int hipMalloc(uint64_t *out, size_t bytes) { return cuMemAlloc_v2(out, bytes); }
int hipFree(uint64_t at) { return cuMemFree_v2(at); }
int hipStreamCreateWithFlags(void **out, unsigned flags) { return cuStreamCreate(out, flags); }
int hipStreamDestroy(void *stream) { return cuStreamDestroy_v2(stream); }
int hipStreamSynchronize(void *stream) { return cuStreamSynchronize(stream); }
int hipMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, void *stream) { return cuMemsetD8Async(at, value, bytes, stream); }
int hipDeviceCanAccessPeer(int *out, int device, int other) { return cuDeviceCanAccessPeer(out, device, other); }
int hipDeviceEnablePeerAccess(int other, unsigned flags) { return cuCtxEnablePeerAccess(devices + other, flags); }
int hipMemcpyDtoDAsync(uint64_t to, uint64_t from, size_t bytes, void *stream) { return cuMemcpyDtoDAsync_v2(to, from, bytes, stream); }
int hipMemcpy2DAsync(uint64_t to, size_t to_stride, uint64_t from, size_t from_stride, size_t bytes, size_t rows, int kind, void *stream) {
  const uint64_t copy[] = {0, 0, (uint64_t)kind, 0, from, 0, from_stride, 0, 0, (uint64_t)kind, 0, to, 0, to_stride, bytes, rows};
  return cuMemcpy2DAsync_v2(copy, stream);
}
int hipEventCreateWithFlags(Event **out, unsigned flags) { return cuEventCreate(out, flags); }
int hipEventDestroy(Event *event) { return cuEventDestroy_v2(event); }
int hipEventRecord(Event *event, void *stream) { return cuEventRecord(event, stream); }
int hipEventSynchronize(Event *event) { return cuEventSynchronize(event); }
int hipHostMalloc(void **out, size_t bytes, unsigned flags) { return cuMemHostAlloc(out, bytes, flags); }
int hipHostFree(void *at) { return cuMemFreeHost(at); }
int hipStreamWaitEvent(void *stream, Event *event, unsigned flags) { return cuStreamWaitEvent(stream, event, flags); }
int hipMemcpyHtoDAsync(uint64_t to, const char *from, size_t bytes, void *stream) { return cuMemcpyHtoDAsync_v2(to, from, bytes, stream); }
int hipMemcpyDtoHAsync(void *to, uint64_t from, size_t bytes, void *stream) { return cuMemcpyDtoHAsync_v2(to, from, bytes, stream); }
int hipModuleLoadDataEx(void **out, const char *image, unsigned count, const int *, void **) {
  IN_CONTEXT
  std::string words;
  uint64_t bytes;
  if (count || strncmp(image, ELF, 4)) return NO_BINARY;
  memcpy(&bytes, image + 4, sizeof bytes);
  *out = opened(std::string(image + 4 + sizeof bytes, bytes), words);
  return *out ? DONE : NO_BINARY;
}
int hipModuleUnload(void *module) { return cuModuleUnload(module); }
int hipModuleGetFunction(const Function **out, void *module, const char *name) { return cuModuleGetFunction(out, module, name); }
int hipFuncGetAttribute(int *out, int what, const Function *function) { return cuFuncGetAttribute(out, what, function); }
int hipGraphCreate(Graph **out, unsigned flags) { return cuGraphCreate(out, flags); }
int hipGraphAddKernelNode(void **out, Graph *graph, void **after, size_t count, const void *parameters) {
  struct Parameters {
    unsigned threads[3];
    void **extra;
    const Function *function;
    unsigned groups[3];
    void **values;
    unsigned shared;
  };
  const auto &given = *(const Parameters *)parameters;
  struct {
    const Function *function;
    unsigned groups[3], threads[3], shared;
    void **values, **extra;
  } cuda = {given.function, {}, {}, given.shared, given.values, given.extra};
  memcpy(cuda.groups, given.groups, sizeof given.groups);
  memcpy(cuda.threads, given.threads, sizeof given.threads);
  return cuGraphAddKernelNode(out, graph, after, count, &cuda);
}
int hipGraphInstantiateWithFlags(void **out, Graph *graph, unsigned long long flags) { return cuGraphInstantiateWithFlags(out, graph, flags); }
int hipGraphDestroy(Graph *graph) { return cuGraphDestroy(graph); }
int hipGraphLaunch(void *launchable, void *stream) { return cuGraphLaunch(launchable, stream); }
int hipGraphExecDestroy(void *launchable) { return cuGraphExecDestroy(launchable); }

struct HipProgram {
  std::string text;
  Built built;
};
int hiprtcCreateProgram(HipProgram **out, const char *text, const char *, int headers, const char **, const char **) {
  return headers ? INVALID : (*out = new HipProgram{text, {}}, DONE);
}
int hiprtcCompileProgram(HipProgram *program, int count, const char **options) {
  bool is_apart = false;
  for (int i = 0; i < count; i++) is_apart |= !strcmp(options[i], "-ffp-contract=off");
  if (!is_apart || getenv("STAND_IN_OLD")) return 5;
  program->built = build(program->text);
  if (program->built.code.empty()) return 6;
  const uint64_t bytes = program->built.code.size();
  program->built.code = ELF + std::string((const char *)&bytes, sizeof bytes) + program->built.code;
  return DONE;
}
int hiprtcGetProgramLogSize(HipProgram *program, size_t *size) { return *size = program->built.words.size() + 1, DONE; }
int hiprtcGetProgramLog(HipProgram *program, char *out) { return strcpy(out, program->built.words.c_str()), DONE; }
int hiprtcGetCodeSize(HipProgram *program, size_t *size) { return *size = program->built.code.size(), DONE; }
int hiprtcGetCode(HipProgram *program, char *out) { return memcpy(out, program->built.code.data(), program->built.code.size()), DONE; }
int hiprtcDestroyProgram(HipProgram **program) { return delete *program, DONE; }
int hiprtcVersion(int *major, int *minor) { return *major = 0, *minor = 1, DONE; }

struct CudaProgram {
  std::string text, architecture;
};
int nvrtcVersion(int *major, int *minor) { return *major = 0, *minor = 1, DONE; }
int nvrtcCreateProgram(CudaProgram **out, const char *text, const char *, int headers, const char **, const char **) {
  return headers ? INVALID : (*out = new CudaProgram{text, ""}, DONE);
}
int nvrtcCompileProgram(CudaProgram *program, int count, const char **options) {
  bool is_apart = false;
  const std::string option = "--gpu-architecture=";
  for (int i = 0; i < count; i++) {
    is_apart |= !strcmp(options[i], "--fmad=false");
    if (option.compare(0, option.size(), options[i], option.size()) == 0) program->architecture = options[i] + option.size();
  }
  return is_apart && !program->architecture.empty() ? DONE : 5;
}
int nvrtcGetProgramLogSize(CudaProgram *, size_t *size) { return *size = 1, DONE; }
int nvrtcGetProgramLog(CudaProgram *, char *out) { return *out = 0, DONE; }
std::string ptx(const CudaProgram &program) { return PTX + program.text; }
int nvrtcGetPTXSize(CudaProgram *program, size_t *size) { return *size = ptx(*program).size() + 1, DONE; }
int nvrtcGetPTX(CudaProgram *program, char *out) { return strcpy(out, ptx(*program).c_str()), DONE; }
std::string cubin(const CudaProgram &program) { return ELF + program.architecture + "\n" + program.text; }
int nvrtcGetCUBINSize(CudaProgram *program, size_t *size) { return *size = cubin(*program).size(), DONE; }
int nvrtcGetCUBIN(CudaProgram *program, char *out) { return memcpy(out, cubin(*program).data(), cubin(*program).size()), DONE; }
int nvrtcDestroyProgram(CudaProgram **program) { return delete *program, DONE; }
}
