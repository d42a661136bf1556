#include "harness/cli/values.h"

const char *cp_transport_value(int value)
{
    static const char *const names[CP_TRANSPORTS] = {
        [CP_TRANSPORT_THREADS] = "threads", [CP_TRANSPORT_MPI] = "mpi"};
    return names[value];
}

const char *cp_attention_value(int value)
{
    static const char *const names[CP_ATTENTION_FORMS] = {
        [CP_ATTENTION_BLOCK] = "block", [CP_ATTENTION_DENSE] = "dense", [CP_ATTENTION_VARLEN] = "varlen"};
    return names[value];
}

cp_dtype cp_working_dtype(int value)
{
    static const cp_dtype dtypes[CP_WORKING_DTYPES] = {CP_F64, CP_F32, CP_BF16};
    return dtypes[value];
}

const char *cp_working_dtype_value(int value)
{
    return cp_dtype_name(cp_working_dtype(value));
}

cp_status cp_read_transport(cp_transport *out, const cp_session *session, const cp_arguments *arguments)
{
    int transport = session->mpi ? CP_TRANSPORT_MPI : CP_TRANSPORT_THREADS;
    CP_TRY(cp_value_choice(&transport, arguments, "transport", cp_transport_value, CP_TRANSPORTS));
    if (transport == CP_TRANSPORT_MPI && !session->mpi)
        return cp_fail(CP_BAD_USAGE, "--transport: mpi needs a launcher: mpirun -n RANKS cpeq %s …",
                       session->command);
    *out = (cp_transport)transport;
    return CP_OK;
}

cp_status cp_read_split(cp_run_options *options, const cp_arguments *arguments)
{
    int64_t D = 0, M = 0;
    CP_TRY(cp_value_integer(&D, arguments, "dp", 1, CP_MOST_RANKS));
    CP_TRY(cp_value_integer(&M, arguments, "micro", 1, CP_MOST_RANKS));
    options->D = (int)D;
    options->M = (int)M;
    return CP_OK;
}

cp_status cp_check_processes(const cp_session *session, cp_transport transport, int64_t P, int D)
{
    int64_t ranks = P * (D > 1 ? D : 1);
    if (ranks > CP_MOST_RANKS)
        return cp_fail(CP_BAD_USAGE, "--cp and --dp: %lld ranks, at most %d", (long long)ranks,
                       CP_MOST_RANKS);
    if (transport == CP_TRANSPORT_MPI && session->processes % ranks != 0)
        return cp_fail(CP_BAD_USAGE, "%s: %lld ranks do not divide the %d processes of this launch",
                       D > 1 ? "--cp and --dp" : "--cp", (long long)ranks, session->processes);
    return CP_OK;
}

cp_status cp_read_fault(cp_decisions *decisions, const cp_arguments *arguments)
{
    const char *text = cp_value(arguments, "fault");
    if (text != NULL && cp_decisions_set(decisions, text) != CP_OK)
        return cp_fail_within(CP_BAD_USAGE, "--fault");
    return CP_OK;
}
