package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
)

// TestCopySchema prints the inventory of a schema, copies the schema, and refuses it while an object needs a hand.
func TestCopySchema(t *testing.T) {
	from, to := testmysql.Start(t, testmysql.WithBinlog()), testmysql.Start(t)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	must(t, from.Exec("CREATE OR REPLACE DATABASE shop COLLATE latin1_bin", "CREATE TABLE shop.orders (id INT PRIMARY KEY, v INT)", "INSERT INTO shop.orders VALUES (1, 1), (2, 2)",
		"CREATE TABLE shop.log_1 (id INT)", "CREATE VIEW shop.large AS SELECT id FROM shop.orders WHERE v > 1", "CREATE TRIGGER shop.sums BEFORE INSERT ON shop.orders FOR EACH ROW SET NEW.v = 0",
		"CREATE EVENT shop.nightly ON SCHEDULE EVERY 1 DAY DO SELECT 1"))
	account := func(s *testmysql.Server) string {
		return "mysql://" + testmysql.RootUser + ":" + testmysql.Password + "@" + s.Addr
	}
	copySchema := func(code int, args ...string) (string, string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if got := run(t.Context(), append([]string{"copy", "--from", account(from), "--to", account(to)}, args...), &stdout, &stderr); got != code {
			t.Fatalf("%v: exit code %d: %s", args, got, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	stdout, stderr := copySchema(1, "--schema", "shop", "--dry-run")
	const inventory = "copied: schema shop, default collation latin1_bin\ncopied: 1 table of shop: shop.orders\n"
	const others = "copied: 1 view of shop: shop.large\n" +
		"copied: 1 event of shop: shop.nightly\n" +
		"copied: event shop.nightly: created DISABLE; once clients use the target: ALTER EVENT `shop`.`nightly` ENABLE there, and DISABLE on the source\n" +
		"copied: 1 trigger of shop: shop.sums on orders\n"
	const keyless = "table shop.log_1: table shop.log_1 has no primary key, nor a unique one over whole columns that are never NULL (ENUM, SET, JSON and CHAR with a NOPAD collation do not count, " +
		"nor do INVISIBLE and IGNORED keys): a copy of it cannot resume; add a key\n"
	if diff := cmp.Diff(inventory+"needs a hand: "+keyless+others+"inventory: 5 objects copied, 0 left out, 1 in need of a hand\n", stdout); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(stderr, "1 object needs a hand before anything can be copied, and nothing was written; correct it, or leave it out by --exclude or --objects:\ntare copy:   "+keyless) {
		t.Error(stderr)
	}
	_, stderr = copySchema(0, "--schema", "shop", "--exclude", "shop.log_*", "--where", "shop.orders: id > 1")
	if want := "left out: table shop.log_1: excluded by option exclude shop.log_*\n"; !strings.Contains(stderr, inventory+want+others) || !strings.Contains(stderr, "created: trigger shop.sums\n") {
		t.Error(stderr)
	}
	stdout, _ = copySchema(0, "--schema", "shop", "--exclude", "shop.log_*", "--where", "shop.orders: id > 1", "--json")
	var first struct {
		Event   string
		Objects []map[string]any
	}
	line, _, _ := strings.Cut(stdout, "\n")
	if err := json.Unmarshal([]byte(line), &first); err != nil || first.Event != "inventory" || len(first.Objects) != 6 || first.Objects[0]["exists"] != true {
		t.Errorf("%v: %s", err, line)
	}
	copySchema(64, "--schema", "shop", "--exclude", "shop.log_*", "--where", "shop.other: id > 1")
}
