#include "harness/cli/command.h"
#include "harness/cli/launch.h"
#include "harness/cli/output.h"
#include "harness/files/h5file.h"
#include "harness/files/view.h"
#include "harness/judge/result.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAD_USAGE = 3, BAD_INPUT = 3, INTERNAL = 4 };

int cp_complain(const cp_session *session, cp_status status)
{
    if (session->process == 0)
        fprintf(stderr, "cpeq%s%s: %s\n", session->command[0] == '\0' ? "" : " ", session->command,
                cp_error());
    return cp_exit_status(status);
}

cp_status cp_operands_check(const cp_arguments *arguments, int least, int most, const char *what)
{
    if (arguments->operand_count < least || arguments->operand_count > most)
        return cp_fail(CP_BAD_USAGE, "expected %s, found %d operand%s", what, arguments->operand_count,
                       arguments->operand_count == 1 ? "" : "s");
    return CP_OK;
}

/* ---- help --------------------------------------------------------------------------------------------------------- */

static void print_overview(FILE *out)
{
    fprintf(out, "Usage: cpeq COMMAND [OPTION...] FILE...\n\n"
                 "Proves, or disproves, that a context-parallel training step equals the unsharded one.\n\n"
                 "Commands:\n");
    for (const cp_command *command = cp_commands; command->name != NULL; command++)
        fprintf(out, "  %-9s %s\n", command->name, command->summary);
    fprintf(out,
            "\n'cpeq COMMAND --help' has the options and an example of each; 'cpeq --version' the version.\n"
            "Exit status: 0 same or done, 1 different, 2 not comparable, 3 bad usage or bad input, 4 "
            "internal.\n");
}

static void print_help(FILE *out, const cp_command *command)
{
    char name[64];
    snprintf(name, sizeof name, "cpeq %s", command->name);
    cp_options_help(out, name, command->operands, command->summary, command->options, command->details);
}

static const cp_command *find_command(const char *name)
{
    for (const cp_command *command = cp_commands; command->name != NULL; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

static cp_status no_such_command(const char *name)
{
    char list[256] = "";
    size_t used = 0;
    for (const cp_command *command = cp_commands; command->name != NULL && used < sizeof list; command++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s, ", command->name);
    return cp_fail(CP_BAD_USAGE, "no command '%s'; there are %shelp", name, list);
}

static int help_command(const cp_session *session, int argc, const char **argv)
{
    if (argc > 1)
        return cp_complain(session, cp_fail(CP_BAD_USAGE, "help: expected one command, found %d", argc));
    const cp_command *command = argc == 0 ? NULL : find_command(argv[0]);
    if (argc == 1 && command == NULL)
        return cp_complain(session, no_such_command(argv[0]));
    if (session->process == 0 && command == NULL)
        print_overview(stdout);
    else if (session->process == 0)
        print_help(stdout, command);
    return 0;
}

/* ---- commands ----------------------------------------------------------------------------------------------------- */

static const char *color_name(int when)
{
    static const char *const names[] = {"auto", "always", "never"};
    return names[when];
}

static cp_status read_common_options(cp_session *session, const cp_arguments *arguments)
{
    enum { AUTO, ALWAYS, NEVER, COLORS };
    int when = AUTO;
    CP_TRY(cp_value_choice(&when, arguments, "color", color_name, COLORS));
    session->json = cp_given(arguments, "json");
    session->quiet = cp_given(arguments, "quiet");
    session->verbose = cp_given(arguments, "verbose");
    session->color = when == ALWAYS || (when == AUTO && getenv("NO_COLOR") == NULL && isatty(STDOUT_FILENO));
    if (session->quiet && session->verbose)
        return cp_fail(CP_BAD_USAGE, "--quiet: not together with --verbose");
    return CP_OK;
}

static int run_command(cp_session *session, const cp_command *command, int argc, const char **argv)
{
    session->command = command->name;
    cp_arguments arguments;
    cp_status status = cp_arguments_parse(&arguments, command->options, argc, argv);
    if (status == CP_OK)
        status = read_common_options(session, &arguments);
    int result = 0;
    if (status != CP_OK)
        result = cp_complain(session, status);
    else if (cp_given(&arguments, "help"))
        result = help_command(session, 1, argv);
    else if (command->collective || session->process == 0)
        result = command->run(session, &arguments);
    cp_arguments_close(&arguments);
    return result;
}

static int dispatch(cp_session *session, int argc, const char **argv)
{
    if (argc < 2) {
        if (session->process == 0)
            print_overview(stderr);
        return BAD_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0)
        return help_command(session, argc - 2, argv + 2);
    if (strcmp(name, "--version") == 0) {
        if (session->process == 0)
            printf("cpeq %s\n", CPEQ_VERSION);
        return 0;
    }
    const cp_command *command = find_command(name);
    if (command == NULL)
        return cp_complain(session, no_such_command(name));
    return run_command(session, command, argc - 1, argv + 1);
}

static void say(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

static void blame(const char *path, const char *sentence)
{
    say("cpeq: ");
    say(path);
    say(sentence);
    _exit(BAD_INPUT);
}

/* HDF5 does not survive all damage to its own structures; whoever waits learns at least that it ended, and how. */
static void crashed(int number, siginfo_t *about, void *context)
{
    (void)context;
    const char *path = cp_h5_being_read(),
               *shorter = number == SIGBUS ? cp_view_mapped(about->si_addr) : NULL;
    if (shorter != NULL)
        blame(shorter, ": cannot be read: it has become shorter\n");
    if (path != NULL)
        blame(path,
              ": expected an HDF5 file, found one that is damaged in a way that the HDF5 library does not "
              "survive\n");
    say("cpeq: crashed: a file that it has read is damaged in a way that the HDF5 library does not survive, "
        "or this is a bug of cpeq\n");
    _exit(INTERNAL);
}

static void catch_crashes(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE};
    struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
#else
    (void)crashed;
#endif
}

int main(int argc, char **argv)
{
    catch_crashes();
    /* A file that grows over the limit of the shell is an error to be told, not a death. */
    signal(SIGXFSZ, SIG_IGN);
    cp_session session = {.command = "", .processes = 1};
    cp_status status = cp_launch_start(&session);
    if (status != CP_OK)
        return cp_complain(&session, status);
    int result = dispatch(&session, argc, (const char **)argv);
    status = cp_standard_output_check();
    if (status != CP_OK)
        result = cp_exit_worse(result, cp_complain(&session, status));
    cp_launch_finish(&session);
    return result;
}
