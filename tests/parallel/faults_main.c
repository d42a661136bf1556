#include "tests/parallel/groups.h"

int main(void)
{
    return run_heads_tests() + run_alltoall_tests() + run_loss_plan_tests() + run_dump_plan_tests() +
           run_decisions_tests();
}
