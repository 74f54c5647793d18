/* kernels/device/dev_cuda_fake.c: opens the fake GPU's shared object and takes its functions by the names of
 * the real libraries. */
#include "dev_cuda_int.h"
#include "gpu_fake.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef KORCH_FAKE_GPU_FOLDER
#error "KORCH_FAKE_GPU_FOLDER: where the shared object lies, from the programs' folder"
#endif

static const char file[] = "libkorch-fake-gpu.so";
static const struct gpu_fake_object *fake; /* of this process, for good: its kernels' code may be in use */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* The folder that is asked for, else the one beside this program's. */
static void
find_file(char *out, size_t cap)
{
	const char *dir = getenv("KORCH_FAKE_GPU");
	char self[3072];
	ssize_t n;

	if (dir && *dir) {
		(void)snprintf(out, cap, "%s/%s", dir, file);
		return;
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[MAX_OF(n, (ssize_t)0)] = '\0';
	if (strrchr(self, '/'))
		*strrchr(self, '/') = '\0';
	(void)snprintf(out, cap, "%s/%s/%s", self, KORCH_FAKE_GPU_FOLDER, file);
}

static bool
load(struct err *e)
{
	const struct gpu_fake_object *object;
	char path[4096];
	void *h;

	if (fake)
		return true;
	find_file(path, sizeof(path));
	h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h)
		return err_set(e, ERR_HOST,
		    "there is no fake GPU here (%s); cmake --install BUILD --component fake-gpu installs it, "
		    "KORCH_FAKE_GPU names another folder",
		    dlerror());
	object = dlsym(h, GPU_FAKE_SYMBOL);
	if (!object || strcmp(object->version, KORCH_VERSION) != 0)
		return err_set(e, ERR_HOST, "%s is not of this version of Korch (%s)", path, KORCH_VERSION);
	fake = object;
	return true;
}

static void *
find(void *self, enum gpu_lib lib, const char *name)
{
	return ((const struct gpu_fake_object *)self)->find(lib, name);
}

static bool
set(struct str args, struct err *e)
{
	struct arena tmp = {0};
	char why[sizeof(e->msg)] = "";
	bool ok = fake->set(str_dup(&tmp, args), why, sizeof(why));

	arena_fini(&tmp);
	return ok || err_set(e, ERR_USAGE, "%s", why);
}

bool
gpu_fake_load(struct err *e)
{
	bool ok;

	(void)pthread_mutex_lock(&turn);
	ok = load(e);
	(void)pthread_mutex_unlock(&turn);
	return ok;
}

bool
gpu_fake_open(struct str args, struct gpu *out, struct err *e)
{
	bool ok;

	*out = (struct gpu){0};
	(void)pthread_mutex_lock(&turn);
	ok = load(e) && set(args, e);
	(void)pthread_mutex_unlock(&turn);
	for (int i = 0; ok && i < GPU_LIBS; i++) {
		const char *why = fake->lacks((enum gpu_lib)i);

		if (why)
			(void)snprintf(out->why[i], sizeof(out->why[i]), "%s", why);
		else
			out->has[i] = gpu_fill(out, (enum gpu_lib)i, file, find, (void *)(uintptr_t)fake);
	}
	return ok;
}

int
gpu_fake_taken(void)
{
	return fake ? (int)MIN_OF(fake->setting("dev"), (int64_t)INT32_MAX) : 0;
}

int64_t
gpu_fake_kernel_ns(void)
{
	return fake ? fake->setting("kernel_ms") * 1000000 : 0;
}
