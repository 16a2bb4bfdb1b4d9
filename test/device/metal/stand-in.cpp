// Stands in for Metal and the Objective-C runtime: as many devices as STAND_IN_DEVICES says, or one, each of them this processor.
// Kernels' text is compiled by g++ with metal_stdlib's words and run thread by thread (simt.hpp), when somebody waits for the commands
// or for others that were committed behind them.
// Memory begins as nonsense, and behind a buffer lies a page that nobody may touch. It ends the process over what an object does
// not know, what is used after its release or its end or in another order than Metal's, what is bound or dispatched out of bounds, and
// what one device is handed of another's.
//
// Where it is preloaded, the libraries of a Mac are found: they are all this one.
//
// objc_msgSend is one function of many C types: on x86-64 whole numbers and addresses come in registers, in order, and structures of
// 24 bytes behind each other on the stack.
//
// HERE is this folder. Where there is a file `lost` beside the library, commands fail.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <mutex>
#include <regex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace {

/** Beside this library. */
bool is_there(const char *name) {
  Dl_info own;
  dladdr((const void *)is_there, &own);
  const std::string path = own.dli_fname;
  return access((path.substr(0, path.rfind('/') + 1) + name).c_str(), F_OK) == 0;
}

struct Size {
  uint64_t width, height, depth;
};

struct Object {
  std::string kind;
  int count = 1; // of those who hold it
  std::string text;
  char *bytes = nullptr;
  Object *device = nullptr; // whose it is
  std::vector<Object *> items;
  std::map<std::string, Object *> parts;
  uint64_t number = 0;
  bool is_ended = false;
  void *module = nullptr;
};

struct Bound {
  Object *buffer;
  uint64_t at;
  uint32_t word;
};
struct Dispatch {
  Object *pipeline;
  std::map<uint64_t, Bound> bound;
  Size groups, threads;
};

std::recursive_mutex mutex;
std::set<Object *> alive;
std::map<Object *, std::vector<Dispatch>> dispatches; // of commands
thread_local std::vector<std::vector<Object *>> pools;
std::vector<Object *> committed; // and not waited for, in their order; each is held by it
uint64_t allocated = 0;
constexpr uint64_t page = 4096;
uint64_t upToPage(uint64_t bytes) { return (bytes + page - 1) / page * page; }
std::mutex running; // by whoever runs kernels, which takes too long to keep others from saying anything
std::atomic<bool> held;   // whoever waits
int order_of_threads = 2; // of simt.hpp's, shuffled

[[noreturn]] void wrong(const std::string &what) {
  fprintf(stderr, "Metal's stand-in: %s\n", what.c_str());
  abort();
}

Object *fresh(const char *kind) {
  Object *object = new Object{kind};
  alive.insert(object);
  return object;
}
Object *pooled(Object *object) {
  if (pools.empty()) wrong(object->kind + " outside of any pool");
  pools.back().push_back(object);
  return object;
}
void release(Object *object) {
  if (!alive.count(object)) wrong("something released once more");
  if (--object->count > 0) return;
  if (object->kind == "buffer") {
    allocated -= object->number;
    munmap((void *)((uint64_t)object->bytes & ~(page - 1)), upToPage(object->number) + page);
  }
  alive.erase(object);
  dispatches.erase(object);
  delete object;
}
Object *text(const std::string &of) {
  Object *string = fresh("NSString");
  return string->text = of, string;
}

std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/** With a table of what is in it, and arrays of a threadgroup marked. */
std::string with_table(std::string source) {
  static const std::regex head("\\[\\[max_total_threads_per_threadgroup\\((\\d+)\\)\\]\\]\\s+kernel void (\\w+)\\(([^{]*)\\) \\{");
  std::string rows;
  for (std::sregex_iterator at(source.begin(), source.end(), head), end; at != end; at++) {
    const std::string name = (*at)[2], parameters = (*at)[3];
    static const std::regex operand("(device|constant)[^,]*\\[\\[buffer\\(");
    std::string kinds;
    for (std::sregex_iterator each(parameters.begin(), parameters.end(), operand); each != end; each++) kinds += (*each)[1] == "device" ? 'b' : 'w';
    rows += "{\"" + name + "\", " + (*at)[1].str() + ", \"" + kinds + "\", [](void **values) { metal::call(" + name + ", values); }},\n";
  }
  static const std::regex array("threadgroup (\\w+) (\\w+)\\[(\\d+)\\];");
  source = std::regex_replace(source, array, "SIMT_SHARED $1 $2[$3];");
  return source + "\n#undef kernel\n"
         "static const struct { const char *name; unsigned threads; const char *operands; void (*call)(void **); } table[] = {\n" + rows +
         "};\nextern \"C\" const char *describe(const char *name, unsigned *threads, void (**call)(void **)) {\n"
         "  for (auto &each : table) if (!strcmp(each.name, name)) return *threads = each.threads, *call = each.call, each.operands;\n  return nullptr;\n}\n"
         "extern \"C\" int launch(void (*call)(void **), unsigned threads, void **values, const unsigned *groups, int order) {\n"
         "  return simt::launch(call, threads, values, groups, order);\n}\n";
}

Object *built(const std::string &source, Object **error) {
  char folder[] = "/tmp/stand-in-XXXXXX";
  mkdtemp(folder);
  const std::string base = folder;
  std::ofstream(base + "/kernels.cpp") << with_table(source);
  const std::string command = "g++ -std=c++17 -O0 -ffp-contract=off -fwrapv -shared -fPIC -w -I" HERE " -o " + base + "/kernels.so " + base + "/kernels.cpp 2>" + base + "/log";
  const int failed = system(command.c_str());
  Object *library = nullptr;
  if (!failed) {
    library = fresh("library");
    library->module = dlopen((base + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library->module) wrong(dlerror());
  } else {
    *error = fresh("NSError");
    (*error)->text = contents(base + "/log");
  }
  for (const char *name : {"/kernels.cpp", "/kernels.so", "/log"}) unlink((base + name).c_str());
  rmdir(folder);
  return library;
}

void run(const Dispatch &dispatch) {
  Object *function = dispatch.pipeline->parts["function"];
  unsigned threads;
  void (*call)(void **);
  const auto describe = (const char *(*)(const char *, unsigned *, void (**)(void **)))dlsym(function->module, "describe");
  const char *operands = describe(function->text.c_str(), &threads, &call);
  if (dispatch.threads.width != threads || dispatch.threads.height != 1 || dispatch.threads.depth != 1) wrong(function->text + " with other threads than it says");
  std::vector<uint64_t> addresses(strlen(operands));
  std::vector<void *> values;
  for (size_t i = 0; operands[i]; i++) {
    const auto found = dispatch.bound.find(i);
    if (found == dispatch.bound.end() || (operands[i] == 'b') != (found->second.buffer != nullptr)) wrong(function->text + ": operand " + std::to_string(i) + " is not bound as it is used");
    addresses[i] = found->second.buffer ? (uint64_t)found->second.buffer->bytes + found->second.at : found->second.word;
    values.push_back(&addresses[i]);
  }
  const unsigned groups[3] = {(unsigned)dispatch.groups.width, (unsigned)dispatch.groups.height, (unsigned)dispatch.groups.depth};
  const auto launch = (int (*)(void (*)(void **), unsigned, void **, const unsigned *, int))dlsym(function->module, "launch");
  if (!launch(call, threads, values.data(), groups, order_of_threads)) wrong(function->text + " is stuck at a barrier");
}

int device_count; // 0: the environment says it

const std::vector<Object *> &devices() {
  static std::vector<Object *> all;
  const char *said = getenv("STAND_IN_DEVICES");
  const int count = device_count ? device_count : said ? atoi(said) : 1;
  for (int i = all.size(); i < count; i++) all.push_back(fresh("device"));
  return all;
}

/** Its end lies at the end of a page. */
Object *buffer_of(Object *device, uint64_t bytes) {
  const uint64_t whole = upToPage(bytes);
  char *from = (char *)mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(from + whole, page, PROT_NONE);
  Object *buffer = fresh("buffer");
  buffer->device = device, buffer->number = bytes;
  buffer->bytes = from + (whole - bytes) / 16 * 16;
  memset(buffer->bytes, 0xcd, bytes);
  allocated += bytes;
  return buffer;
}

} // namespace

extern "C" {

/** For who has it in his own process. */
/** Whoever waits goes on waiting until it is said that nothing is held. */
void stand_in_hold(int is_held) { held = is_held; }
void stand_in_machine(int count) { device_count = count; }
/** Libraries and pipelines that are held. */
int stand_in_kernels() {
  int count = 0;
  for (const Object *each : alive) count += each->kind == "library" || each->kind == "pipeline";
  return count;
}

/** Preloaded, it is what a Mac's libraries are. */
void *dlopen(const char *name, int flags) {
  static const auto real = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
  static const char *const ofMac[] = {"/Metal.framework/Metal", "/libobjc.A.dylib", "/CoreGraphics.framework/CoreGraphics"};
  if (name)
    for (const char *end : ofMac)
      if (strlen(name) > strlen(end) && !strcmp(name + strlen(name) - strlen(end), end)) {
        Dl_info own;
        dladdr((void *)dlopen, &own);
        return real(own.dli_fname, flags);
      }
  return real(name, flags);
}

/** Of threads, from here on: of tests, not of Metal's. */
void use_order(int order) { order_of_threads = order; }

void *objc_getClass(const char *name) {
  static std::map<std::string, Object *> classes;
  std::lock_guard<std::recursive_mutex> lock(mutex);
  Object *&found = classes[name];
  if (!found) found = fresh("class"), found->text = name;
  return found;
}
const char *sel_registerName(const char *name) {
  static std::set<std::string> names;
  std::lock_guard<std::recursive_mutex> lock(mutex);
  return names.insert(name).first->c_str();
}
void *objc_autoreleasePoolPush() { return pools.emplace_back(), (void *)pools.size(); }
void objc_autoreleasePoolPop(void *pool) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  if ((size_t)pool != pools.size()) wrong("a pool that is not the last one");
  for (Object *object : pools.back()) release(object);
  pools.pop_back();
}
Object *MTLCopyAllDevices() {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  Object *list = fresh("NSArray");
  return list->items = devices(), list;
}
void CGMainDisplayID() {}

uint64_t objc_msgSend(Object *self, const char *selector, uint64_t a, uint64_t b, uint64_t c, uint64_t, Size first, Size second) {
  std::unique_lock<std::recursive_mutex> lock(mutex);
  if (!self) return 0;
  if (!alive.count(self)) wrong(std::string(selector) + " to what is gone");
  const std::string message = self->kind + " " + selector;
  const auto answer = [](auto value) { return (uint64_t)value; };
  if (!strcmp(selector, "retain")) return self->count++, answer(self);
  if (!strcmp(selector, "release")) return release(self), 0;
  if (message == "NSArray count") return self->items.size();
  if (message == "NSArray objectAtIndex:") return answer(self->items.at(a));
  if (message == "NSString UTF8String") return answer(self->text.c_str());
  if (message == "class stringWithUTF8String:") return answer(pooled(text((const char *)a)));
  if (message == "class new") return answer(fresh(self->text.c_str()));
  if (message == "MTLCompileOptions setFastMathEnabled:") return self->number = (a & 0xff) ? 2 : 1, 0;
  if (message == "NSError localizedDescription") return answer(pooled(text(self->text)));

  if (message == "device name") return answer(pooled(text("Stand-in")));
  if (message == "device recommendedMaxWorkingSetSize" || message == "device maxBufferLength") return 1ul << 30;
  if (message == "device currentAllocatedSize") return allocated;
  if (message == "device maxThreadgroupMemoryLength") return 32 << 10;
  if (message == "device hasUnifiedMemory" || message == "device supportsFamily:") return 1;
  if (message == "device isLowPower") return 0;
  if (message == "device newCommandQueue") {
    Object *queue = fresh("queue");
    return queue->device = self, answer(queue);
  }
  if (message == "device newBufferWithLength:options:") {
    if (a == 0 || a > (1ul << 30) - allocated) return 0;
    return answer(buffer_of(self, a));
  }
  if (message == "buffer contents") return answer(self->bytes);
  if (message == "device newLibraryWithSource:options:error:") {
    Object *options = (Object *)b;
    if (!alive.count(options) || options->number != 1) wrong("kernels are built with fast mathematics");
    return answer(built(((Object *)a)->text, (Object **)c));
  }
  if (message == "library newFunctionWithName:") {
    const std::string name = ((Object *)a)->text;
    unsigned threads;
    void (*call)(void **);
    if (!((const char *(*)(const char *, unsigned *, void (**)(void **)))dlsym(self->module, "describe"))(name.c_str(), &threads, &call)) return 0;
    Object *function = fresh("function");
    return function->text = name, function->module = self->module, answer(function);
  }
  if (message == "device newComputePipelineStateWithFunction:error:") {
    Object *pipeline = fresh("pipeline"), *function = (Object *)a;
    if (!alive.count(function)) wrong("a pipeline of a function that is gone");
    pipeline->device = self;
    return function->count++, pipeline->parts["function"] = function, answer(pipeline);
  }
  if (message == "pipeline maxTotalThreadsPerThreadgroup") return 1024;

  if (message == "queue commandBuffer") {
    Object *commands = fresh("commands");
    return commands->device = self->device, answer(pooled(commands));
  }
  if (message == "commands computeCommandEncoder") {
    if (self->parts["encoder"] && !self->is_ended) wrong("two encoders at once");
    if (self->number != 0) wrong("an encoder after the commit");
    Object *encoder = fresh("encoder");
    encoder->device = self->device, self->parts["encoder"] = encoder, self->is_ended = false;
    return encoder->parts["commands"] = self, answer(pooled(encoder));
  }
  if (self->kind == "encoder") {
    if (self->is_ended) wrong(message + " after its end");
    std::vector<Dispatch> &list = dispatches[self->parts["commands"]];
    static std::map<Object *, Dispatch> open;
    Dispatch &next = open[self];
    if (!strcmp(selector, "endEncoding")) return open.erase(self), self->is_ended = self->parts["commands"]->is_ended = true, 0;
    if (!strcmp(selector, "setComputePipelineState:")) {
      if (((Object *)a)->device != self->device) wrong("a pipeline of another device");
      return next.pipeline = (Object *)a, 0;
    }
    if (!strcmp(selector, "setBuffer:offset:atIndex:")) {
      Object *buffer = (Object *)a;
      if (!alive.count(buffer) || b >= buffer->number || b % 4) wrong("a buffer bound at " + std::to_string(b));
      if (buffer->device != self->device) wrong("a buffer of another device");
      return next.bound[c] = {buffer, b, 0}, 0;
    }
    if (!strcmp(selector, "setBytes:length:atIndex:")) return next.bound[c] = {nullptr, 0, *(const uint32_t *)a}, b == 4 ? 0 : (wrong("words have 4 bytes"), 0);
    if (!strcmp(selector, "dispatchThreadgroups:threadsPerThreadgroup:")) {
      if (!next.pipeline || !alive.count(next.pipeline)) wrong("a dispatch without a pipeline");
      next.groups = first, next.threads = second;
      list.push_back(next);
      return next.bound.clear(), 0; // each kernel must bind its own
    }
  }
  if (message == "commands commit") {
    if (self->number != 0) wrong("commands committed once more");
    if (!self->is_ended) wrong("commands without an end");
    self->count++, committed.push_back(self);
    return self->number = 1, 0;
  }
  if (message == "commands waitUntilCompleted") {
    if (self->number == 0) wrong("a wait before the commit");
    lock.unlock();
    while (held) usleep(100);
    std::lock_guard<std::mutex> alone(running);
    lock.lock();
    while (self->number == 1) {
      const auto next = std::find_if(committed.begin(), committed.end(), [&](Object *each) { return each->device == self->device; });
      Object *commands = *next;
      committed.erase(next);
      const std::vector<Dispatch> list = dispatches[commands];
      const bool is_lost = is_there("lost");
      lock.unlock();
      if (!is_lost)
        for (const Dispatch &each : list) run(each);
      lock.lock();
      commands->number = is_lost ? 5 : 4;
      release(commands);
    }
    return 0;
  }
  if (message == "commands status") return self->number;
  if (message == "commands error") {
    Object *error = fresh("NSError");
    return error->text = "the device was removed", answer(pooled(error));
  }
  wrong("nobody knows " + message);
}
}
