#include "base/host.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/tap.h"

static struct host_facts facts;

static void test_facts(void)
{
	host_probe(&facts, NULL);
	check(facts.kernel[0] && facts.machine[0]);
	check(facts.cpus > 0 && facts.memory_bytes > 0 && facts.nofile_hard > 0);
	check(facts.is_root == (geteuid() == 0));
	check(!facts.is_root || facts.subuid_count == 0);
	check(!facts.runtime[0] == !facts.runtime_name[0]);
	check(!facts.runtime[0] || facts.runtime[0] == '/');
	tap_ok("a machine has a kernel, cpus and memory");
}

static void test_runtime(void)
{
	host_probe(&facts, "/bin/sh");
	check_str(facts.runtime, "/bin/sh");
	check_str(facts.runtime_name, "sh");
	host_probe(&facts, "/nonexistent/crun");
	check_str(facts.runtime, "");
	check_str(facts.runtime_name, "");
	host_probe(&facts, "/etc/passwd");
	check_str(facts.runtime, "");
	host_probe(&facts, "/bin");
	check_str(facts.runtime, "");
	tap_ok("a runtime is chosen by its path if it is a program");
}

static void test_lookup(void)
{
	setenv("PATH", "", 1);
	host_probe(&facts, "sh");
	check(strstr(facts.runtime, "bin/sh") && facts.runtime[0] == '/');
	setenv("PATH", ".:bin:/nonexistent:/bin", 1);
	host_probe(&facts, "sh");
	check_str(facts.runtime, "/bin/sh");
	tap_ok("names are looked up in absolute folders only");
}

static void test_names(void)
{
	check_str(host_cgroups_name(HOST_CGROUPS_NONE), "none");
	check_str(host_cgroups_name(HOST_CGROUPS_V1), "v1");
	check_str(host_cgroups_name(HOST_CGROUPS_HYBRID), "hybrid");
	check_str(host_cgroups_name(HOST_CGROUPS_V2), "v2");
	tap_ok("the modes of cgroups have names");
}

int main(void)
{
	test_facts();
	test_runtime();
	test_lookup();
	test_names();
	return tap_done();
}
