#include "harness/cli/command.h"
#include "harness/cli/hub.h"
#include "harness/cli/output.h"

const cp_option cp_export_options[] = {
    {"output", 'o', "DIR", "the folder to write"},
    {0},
};

static cp_status export(const cp_session *session, const cp_arguments *arguments)
{
    const char *folder = cp_value(arguments, "output");
    CP_TRY(cp_operands_check(arguments, 1, 1, "one FIXTURE"));
    if (folder == NULL)
        return cp_fail(CP_BAD_USAGE, "expected -o DIR");
    cp_fixture *fixture = NULL;
    CP_TRY(cp_fixture_open(&fixture, arguments->operands[0]));
    cp_status status = cp_hub_write(folder, fixture);
    if (status == CP_OK && session->json) {
        cp_json *root = cp_json_new_object();
        cp_json_set_integer(root, "schema_version", 1);
        cp_json_set_string(root, "kind", "export");
        cp_json_set_string(root, "output", folder);
        cp_json_set_string(root, "fixture_id", fixture->id);
        cp_json_set_integer(root, "weights", (int64_t)fixture->weight_count);
        cp_print_json(root);
    } else if (status == CP_OK && !session->quiet) {
        printf("%s: config.json, model.safetensors (%zu weights), batch.safetensors\n", folder,
               fixture->weight_count);
    }
    cp_fixture_close(fixture);
    return status;
}

int cp_command_export(const cp_session *session, const cp_arguments *arguments)
{
    cp_status status = export(session, arguments);
    return status == CP_OK ? 0 : cp_complain(session, status);
}
