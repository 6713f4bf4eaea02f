/* dev_about.c -- the lines about devices of --version.  This is not in dev_plugin.c, which a program without
 * kernels may use. */
#include <stdlib.h>
#include <string.h>

#include "base/print.h"
#include "device/dev.h"
#include "device/dev_about.h"
#include "device/dev_plugin.h"

/* Appends a text from outside, after a text of ours. */
static void print_text(struct rf_buf *p, const char *before, const char *text)
{
	rf_print_text(p, before);
	rf_print_safe(p, text, strlen(text), false);
}

/* Appends the variables that lower the level, as " (RF_ISA=x86_64)". */
static void print_limits(struct rf_buf *p)
{
	static const char *const names[] = { "RF_ISA", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA" };
	const char *sep = " (";

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *value = getenv(names[i]);

		if (!value || !*value)
			continue;
		rf_print(p, "%s%s=", sep, names[i]);
		rf_print_safe(p, value, strlen(value), false);
		sep = ", ";
	}
	rf_print_text(p, *sep == ',' ? ")" : "");
}

static void print_levels(struct rf_buf *p)
{
	struct rf_err e;
	const char *level;
	int n = 0;

	if (rf_cpu_isa(NULL, &e) == RF_OK)
		rf_print(p, "levels       %s in force", rf_cpu_level());
	else
		print_text(p, "levels       none in force: ", e.msg);
	print_limits(p);
	rf_print_text(p, "; of the processor:");
	while (rf_cpu_has(n))
		n++;
	while (n--)
		rf_print(p, " %s", rf_cpu_has(n));
	rf_print_text(p, "; of the build:");
	for (n = 0; (level = rf_cpu_built(n)); n++)
		rf_print(p, " %s", level);
	rf_print_text(p, "\n");
}

static void print_plugin(struct rf_buf *p)
{
	struct rf_plugin_look look;
	struct rf_err e;
	const enum rf_code rc = rf_plugin_look(&look, &e);

	rf_print_text(p, "CUDA         ");
	if (*look.about.archs)
		print_text(p, "", look.about.archs);
	if (*look.about.archs)
		rf_print(p, " and newer, built with CUDA %d.%d", look.about.cuda / 1000,
		         look.about.cuda % 1000 / 10);
	else
		rf_print_text(p, *look.path ? "unknown architectures" : "none");
	if (*look.path)
		print_text(p, ": ", look.path);
	if (rc != RF_OK)
		print_text(p, *look.path ? "; not usable: " : ": ", e.msg);
	if (*look.path && !look.driver && !look.named)
		rf_print(p, "%sno NVIDIA driver", rc == RF_OK ? "; not usable: " : "; and ");
	rf_print_text(p, "\n");
}

void rf_dev_about(struct rf_buf *text)
{
	print_levels(text);
	print_plugin(text);
}
