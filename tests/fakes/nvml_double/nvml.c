/* A stand-in for libnvidia-ml.so.1. What it answers stands in the text file that GPUDECK_NVML_DOUBLE names, looked at
 * anew at each call, so that a test changes the box while the program runs. README.md beside this file has the keys. */
#include "state.h"

enum {
  SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
  INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, VERSION_MISMATCH = 18, ARGUMENT_VERSION = 25
};
enum { MAX_HANDLES = 256, MAX_INSTANCES = 8 };

typedef unsigned int uint;
typedef unsigned long long ull;
typedef struct { char uuid[96]; } Handle;
typedef struct { ull total, free, used; } MemoryV1;
typedef struct { uint version; ull total, reserved, free, used; } MemoryV2;
typedef struct { uint gpu, memory; } Rates;
typedef struct { uint version; int sensor, celsius; } Temperature;
typedef struct { char legacy_bus_id[16]; uint domain, bus, device, device_id, subsystem_id; char bus_id[32]; } PciInfo;
typedef struct { uint pid; ull used; uint gpu_instance, compute_instance; } ProcessInfo;

static Handle handles[MAX_HANDLES];
static int handle_count, in_flight, inits, raced;

/* -- entering and leaving -- */

static int hangs(const char *function) {
  char what[LINE];
  for (int nth = 0; nth_text(what, nth, "hang"); nth++)
    if (strcmp(what, "all") == 0 || strcmp(what, function) == 0) return 1;
  return 0;
}

static void note(const char *function) {
  char path[LINE];
  FILE *file = text(path, "calls") ? fopen(path, "a") : NULL;
  if (!file) return;
  fprintf(file, "%s\n", function);
  fclose(file);
}

static int enter(const char *function) {
  __atomic_add_fetch(&in_flight, 1, __ATOMIC_SEQ_CST);
  look();
  note(function);
  for (; hangs(function); look()) usleep(5000);
  return (int)number(SUCCESS, "error.%s", function);
}

static int leave(int result) {
  __atomic_sub_fetch(&in_flight, 1, __ATOMIC_SEQ_CST);
  return result;
}

#define ENTER()                                    \
  do {                                             \
    int failed = enter(__func__);                  \
    if (failed) return leave(failed);              \
    if (inits <= 0) return leave(UNINITIALIZED);   \
  } while (0)

/* -- GPUs and handles -- */

static int give(const char *prefix, Handle **out) {
  char uuid[LINE];
  if (!text(uuid, "%s.uuid", prefix)) return NOT_FOUND;
  if (number(0, "%s.lost", prefix)) return GPU_IS_LOST;
  long error = number(SUCCESS, "%s.error.handle", prefix);
  if (error) return (int)error;
  for (int i = 0; i < handle_count; i++)
    if (strcmp(handles[i].uuid, uuid) == 0) return *out = &handles[i], SUCCESS;
  if (handle_count == MAX_HANDLES) abort();
  strncpy(handles[handle_count].uuid, uuid, sizeof handles[0].uuid - 1);
  return *out = &handles[handle_count++], SUCCESS;
}

/* As in the real library a NULL handle ends the process. */
static int use(const Handle *handle, const char *field, char *prefix) {
  if (!handle) abort();
  for (; place_of(handle->uuid, prefix) && number(0, "%s.hang", prefix); look()) usleep(5000);
  if (!place_of(handle->uuid, prefix) || number(0, "%s.lost", prefix)) return GPU_IS_LOST;
  return (int)number(SUCCESS, "%s.error.%s", prefix, field);
}

static int number_of(const Handle *handle, const char *field, uint *out) {
  char prefix[LINE];
  int failed = use(handle, field, prefix);
  if (failed) return failed;
  long found = number(-1, "%s.%s", prefix, field);
  if (found < 0) return NOT_SUPPORTED;
  return *out = (uint)found, SUCCESS;
}

static int text_of(const Handle *handle, const char *field, char *out, uint size) {
  char prefix[LINE], found[LINE];
  int failed = use(handle, field, prefix);
  if (failed) return failed;
  if (!text(found, "%s.%s", prefix, field)) return NOT_SUPPORTED;
  if (strlen(found) >= size) return INSUFFICIENT_SIZE;
  return strcpy(out, found), SUCCESS;
}

/* -- the box -- */

int nvmlInitWithFlags(uint flags) {
  (void)flags;
  int failed = enter(__func__);
  if (!failed) failed = (int)number(SUCCESS, "init");
  if (!failed) inits++;
  return leave(failed);
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

/* The real library crashes where another thread is inside a call. */
int nvmlShutdown(void) {
  if (__atomic_load_n(&in_flight, __ATOMIC_SEQ_CST)) abort();
  if (inits <= 0) return UNINITIALIZED;
  return inits--, SUCCESS;
}

const char *nvmlErrorString(int code) {
  switch (code) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    case VERSION_MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
  }
}

static int box_text(const char *key, char *out, uint size) {
  char found[LINE];
  if (!text(found, "%s", key)) return NOT_SUPPORTED;
  if (strlen(found) >= size) return INSUFFICIENT_SIZE;
  return strcpy(out, found), SUCCESS;
}

int nvmlSystemGetDriverVersion(char *out, uint size) { ENTER(); return leave(box_text("driver", out, size)); }
int nvmlSystemGetNVMLVersion(char *out, uint size) { ENTER(); return leave(box_text("driver", out, size)); }
int nvmlSystemGetCudaDriverVersion(int *out) { ENTER(); return leave((*out = (int)number(0, "cuda")) ? SUCCESS : NOT_SUPPORTED); }
int nvmlDeviceGetCount_v2(uint *out) { ENTER(); *out = (uint)count(); return leave(SUCCESS); }

int nvmlDeviceGetHandleByIndex_v2(uint index, Handle **out) {
  char prefix[LINE];
  ENTER();
  if (index >= (uint)count()) return leave(INVALID_ARGUMENT);
  sprintf(prefix, "gpu.%u", index);
  return leave(give(prefix, out));
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Handle **out) {
  char prefix[LINE];
  ENTER();
  return leave(place_of(uuid, prefix) ? give(prefix, out) : NOT_FOUND);
}

/* -- one GPU -- */

int nvmlDeviceGetUUID(Handle *handle, char *out, uint size) { ENTER(); return leave(text_of(handle, "uuid", out, size)); }
int nvmlDeviceGetName(Handle *handle, char *out, uint size) { ENTER(); return leave(text_of(handle, "name", out, size)); }
int nvmlDeviceGetPowerUsage(Handle *handle, uint *out) { ENTER(); return leave(number_of(handle, "power", out)); }
int nvmlDeviceGetTotalEnergyConsumption(Handle *handle, unsigned long long *out) {
  uint found = 0;
  ENTER();
  int failed = number_of(handle, "energy", &found);
  if (!failed) *out = found;
  return leave(failed);
}
int nvmlDeviceGetEnforcedPowerLimit(Handle *handle, uint *out) { ENTER(); return leave(number_of(handle, "limit", out)); }
int nvmlDeviceGetPowerManagementLimit(Handle *handle, uint *out) { ENTER(); return leave(number_of(handle, "limit", out)); }
int nvmlDeviceGetPerformanceState(Handle *handle, uint *out) { ENTER(); return leave(number_of(handle, "pstate", out)); }
int nvmlDeviceGetPersistenceMode(Handle *handle, uint *out) { ENTER(); return leave(number_of(handle, "persistence", out)); }
int nvmlDeviceGetComputeMode(Handle *handle, uint *out) { ENTER(); return leave(number_of(handle, "mode", out)); }
int nvmlDeviceGetDisplayActive(Handle *handle, uint *out) { ENTER(); return leave(number_of(handle, "display", out)); }

int nvmlDeviceGetTemperature(Handle *handle, int sensor, uint *out) {
  ENTER();
  return leave(sensor ? INVALID_ARGUMENT : number_of(handle, "temp", out));
}

int nvmlDeviceGetTemperatureV(Handle *handle, Temperature *out) {
  uint celsius = 0;
  ENTER();
  if (out->version != (sizeof(Temperature) | 1u << 24)) return leave(ARGUMENT_VERSION);
  int failed = out->sensor ? INVALID_ARGUMENT : number_of(handle, "temp", &celsius);
  out->celsius = (int)celsius;
  return leave(failed);
}

int nvmlDeviceGetTemperatureThreshold(Handle *handle, int threshold, uint *out) {
  ENTER();
  return leave(threshold == 1 ? number_of(handle, "slowdown", out) : NOT_SUPPORTED);
}

/* 1: the multiprocessors' clock, 2: the memory's. */
static int clock_of(const Handle *handle, int clock, const char *suffix, uint *out) {
  char field[32];
  if (clock != 1 && clock != 2) return NOT_SUPPORTED;
  sprintf(field, "%s%s", clock == 1 ? "sm" : "memclock", suffix);
  return number_of(handle, field, out);
}

int nvmlDeviceGetClockInfo(Handle *handle, int clock, uint *out) { ENTER(); return leave(clock_of(handle, clock, "", out)); }
int nvmlDeviceGetMaxClockInfo(Handle *handle, int clock, uint *out) { ENTER(); return leave(clock_of(handle, clock, "max", out)); }
int nvmlDeviceGetFanSpeed(Handle *handle, uint *out) { ENTER(); return leave(number_of(handle, "fan", out)); }

static int wide_number_of(const Handle *handle, const char *field, ull *out) {
  uint found = 0;
  int failed = number_of(handle, field, &found);
  if (!failed) *out = found;
  return failed;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Handle *handle, ull *out) {
  ENTER();
  return leave(wide_number_of(handle, "throttle", out));
}

int nvmlDeviceGetTotalEccErrors(Handle *handle, int kind, int since, ull *out) {
  ENTER();
  return leave(kind == 1 && since == 0 ? wide_number_of(handle, "ecc", out) : INVALID_ARGUMENT);
}

int nvmlDeviceGetRemappedRows(Handle *handle, uint *corrected, uint *uncorrected, uint *pending, uint *failure) {
  uint bits = 0;
  ENTER();
  int failed = number_of(handle, "remap", &bits);
  *corrected = *uncorrected = 0;
  *pending = bits & 1;
  *failure = bits >> 1 & 1;
  return leave(failed);
}

int nvmlDeviceGetPciInfo_v3(Handle *handle, PciInfo *out) {
  ENTER();
  return leave(text_of(handle, "bus", out->bus_id, sizeof out->bus_id));
}

int nvmlDeviceGetUtilizationRates(Handle *handle, Rates *out) {
  ENTER();
  out->memory = 0;
  return leave(number_of(handle, "util", &out->gpu));
}

static int codec_of(const Handle *handle, const char *field, uint *out, uint *period_us) {
  *period_us = 167000;
  return number_of(handle, field, out);
}

int nvmlDeviceGetEncoderUtilization(Handle *handle, uint *out, uint *period_us) {
  ENTER();
  return leave(codec_of(handle, "encoder", out, period_us));
}

int nvmlDeviceGetDecoderUtilization(Handle *handle, uint *out, uint *period_us) {
  ENTER();
  return leave(codec_of(handle, "decoder", out, period_us));
}

/* A matter of Windows. */
int nvmlDeviceGetDriverModel_v2(Handle *handle, uint *current, uint *pending) {
  (void)handle, (void)current, (void)pending;
  ENTER();
  return leave(NOT_SUPPORTED);
}

static int memory(const Handle *handle, ull *total, ull *reserved, ull *used) {
  char prefix[LINE];
  int failed = use(handle, "memory", prefix);
  if (failed) return failed;
  if (number(-1, "%s.total", prefix) < 0) return NOT_SUPPORTED;
  *total = (ull)number(0, "%s.total", prefix) << 20;
  *reserved = (ull)number(0, "%s.reserved", prefix) << 20;
  *used = (ull)number(0, "%s.used", prefix) << 20;
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(Handle *handle, MemoryV2 *out) {
  ENTER();
  if (out->version != (sizeof(MemoryV2) | 2u << 24)) return leave(ARGUMENT_VERSION);
  int failed = memory(handle, &out->total, &out->reserved, &out->used);
  if (!failed) out->free = out->total - out->reserved - out->used;
  return leave(failed);
}

int nvmlDeviceGetMemoryInfo(Handle *handle, MemoryV1 *out) {
  ull reserved;
  ENTER();
  int failed = memory(handle, &out->total, &reserved, &out->used);
  if (!failed) out->free = out->total - (out->used += reserved);
  return leave(failed);
}

/* "PID MIB TYPE"; MIB "-" is memory that the driver does not tell; TYPE C, G, C+G or M. */
static int processes(const Handle *handle, const char *field, char type, uint *size, ProcessInfo *out) {
  char prefix[LINE], line[LINE], used[32], types[32];
  uint pid, found = 0;
  int failed = use(handle, field, prefix);
  if (failed) return failed;
  for (int nth = 0; nth_text(line, nth, "%s.process", prefix); nth++) {
    if (sscanf(line, "%u %31s %31s", &pid, used, types) != 3 || !strchr(types, type)) continue;
    if (out && found < *size) {
      ull bytes = strcmp(used, "-") == 0 ? ~0ULL : strtoull(used, NULL, 10) << 20;
      out[found] = (ProcessInfo){pid, bytes, ~0u, ~0u};
    }
    found++;
  }
  if (out && raced < number(0, "%s.race", prefix)) return raced++, INSUFFICIENT_SIZE;
  int fits = found == 0 || (out && found <= *size);
  *size = found;
  return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Handle *handle, uint *size, ProcessInfo *out) {
  ENTER();
  return leave(processes(handle, "compute", 'C', size, out));
}

int nvmlDeviceGetComputeRunningProcesses_v2(Handle *handle, uint *size, ProcessInfo *out) {
  ENTER();
  return leave(processes(handle, "compute", 'C', size, out));
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Handle *handle, uint *size, ProcessInfo *out) {
  ENTER();
  return leave(processes(handle, "graphics", 'G', size, out));
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(Handle *handle, uint *size, ProcessInfo *out) {
  ENTER();
  return leave(processes(handle, "mps", 'M', size, out));
}

/* -- MIG and topology -- */

int nvmlDeviceGetMigMode(Handle *handle, uint *current, uint *pending) {
  ENTER();
  int failed = number_of(handle, "mig", current);
  *pending = *current;
  return leave(failed);
}

int nvmlDeviceIsMigDeviceHandle(Handle *handle, uint *out) {
  char prefix[LINE];
  ENTER();
  int failed = use(handle, "uuid", prefix);
  *out = !failed && strstr(prefix, ".mig.");
  return leave(failed);
}

int nvmlDeviceGetMaxMigDeviceCount(Handle *handle, uint *out) {
  char prefix[LINE];
  ENTER();
  *out = MAX_INSTANCES - 1;
  return leave(use(handle, "mig", prefix));
}

int nvmlDeviceGetMigDeviceHandleByIndex(Handle *handle, uint place, Handle **out) {
  char prefix[LINE];
  ENTER();
  int failed = use(handle, "mig", prefix);
  if (failed) return leave(failed);
  sprintf(prefix + strlen(prefix), ".mig.%u", place);
  return leave(give(prefix, out));
}

/* "topology.0.1 30", "nvlink.0.1 1"; the smaller index first. */
static int pair(const char *key, const Handle *one, const Handle *other, long *out) {
  char prefix[LINE];
  int first, second, failed = use(one, key, prefix);
  if (failed) return failed;
  first = atoi(prefix + 4);
  if ((failed = use(other, key, prefix))) return failed;
  second = atoi(prefix + 4);
  *out = first < second ? number(-1, "%s.%d.%d", key, first, second) : number(-1, "%s.%d.%d", key, second, first);
  return SUCCESS;
}

int nvmlDeviceGetTopologyCommonAncestor(Handle *one, Handle *other, uint *out) {
  long level = -1;
  ENTER();
  int failed = pair("topology", one, other, &level);
  if (failed) return leave(failed);
  if (level < 0) return leave(NOT_SUPPORTED);
  *out = (uint)level;
  return leave(SUCCESS);
}

int nvmlDeviceGetP2PStatus(Handle *one, Handle *other, int index, int *out) {
  long linked = -1;
  ENTER();
  int failed = pair("nvlink", one, other, &linked);
  if (failed) return leave(failed);
  *out = index == 2 && linked == 1 ? 0 : 5;
  return leave(SUCCESS);
}
