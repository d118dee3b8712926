package main

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

var rewrite = flag.Bool("rewrite", false, "write the pages and scripts that are generated instead of comparing them")

const configurationPage = "../../docs/reference/configuration.md"

const configurationIntro = `# Configuration

Which options does a command have? Each is a flag, an environment variable and a key in a YAML file:
` + "`--max-connections`, `TARE_MAX_CONNECTIONS`, and `max-connections` under the command's name" + `.
Flags override the environment, which overrides the file. Defaults are in parentheses below.

` + "```yaml" + `
# tare.yaml, used by: tare serve --config tare.yaml
serve:
  backend: mysql://db.internal:3306
  log-file: /var/log/tare/query.log
  log-slower-than: 100ms
  rules: # see docs/tasks/block-statements.md
    - {name: no drops by the application, action: block, types: [ddl], users: [app]}
` + "```" + `

- ` + "`tare config check FILE`" + ` reports errors by line, malformed values first, without starting anything.
- ` + "`tare config print`" + ` prints every value and its origin, with further arguments those of ` + "`serve --listen :3316`" + `; ` + "`--json`" + ` prints
  ` + "`" + `{"sections": [{"name", "options": [{"name", "kind", "value", "origin", "source"}], "blocks": {"rules": […]}}]}` + "`" + `:
  ` + "`origin` is `default`, `file`, `env` or `flag`, and `source` the place: `tare.yaml:3`, `TARE_LISTEN`, `--listen`" + `.
- An unknown key, a key given twice or a second document is an error, as is an option that has no effect with the values of the
  others. In the environment both are warnings; an empty ` + "`TARE_`" + ` variable is not set.
- Passwords are masked in all output and logs.
- Only the configuration, tokens, passwords and a queue may be read from a pipe, to its end.
- Bytes are written ` + "`65536`, `64KiB`, `32MiB`" + `; durations ` + "`250ms`, `30s`, `2h`; rates `10/s`" + `. Flags without a value are off by default.
- Exit codes: 64 an error in a value, before anything starts; 0 done, 1 failed, 3 partially done, 130 interrupted.

`

// TestConfigurationPage holds the page against the options.
func TestConfigurationPage(t *testing.T) {
	var page bytes.Buffer
	page.WriteString(configurationIntro)
	if err := config.WriteMarkdown(&page, config.Sections()); err != nil {
		t.Fatal(err)
	}
	want := append(bytes.TrimRight(page.Bytes(), "\n"), '\n')
	if *rewrite {
		if err := os.WriteFile(configurationPage, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/reference/configuration.md is stale: run make generate\n%s", diff)
	}
}
