package session

import (
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestSet sets variables that take, do not take, do not exist, and are refused, by the account or for their values.
func TestSet(t *testing.T) {
	server := testmysql.Shared(t).Server
	c, err := OpenBare(t.Context(), mysqlconn.Config{Addr: server.Addr, User: testmysql.AppUser, Password: testmysql.Password})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	value := func(sql string) (v string) {
		t.Helper()
		if _, err := c.Query(t.Context(), "SELECT "+sql, func(row mysqlwire.TextRow) error { v = text(row[0]); return nil }); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, set := range map[string]struct {
		values []Value
		want   string // of the error; "": none
		reads  string
		is     string
	}{
		"none":                    {nil, "", "1", "1"},
		"one":                     {[]Value{Int("lock_wait_timeout", 7)}, "", "@@lock_wait_timeout", "7"},
		"two":                     {[]Value{Int("lock_wait_timeout", 8), Int("sql_notes", 0)}, "", "CONCAT(@@lock_wait_timeout, @@sql_notes + 0)", "80"},
		"a list in another order": {[]Value{{Name: "sql_mode", SQL: "'NO_ZERO_DATE,ANSI_QUOTES'"}}, "", "@@sql_mode", "ANSI_QUOTES,NO_ZERO_DATE"},
		"another number":          {[]Value{{Name: "long_query_time", SQL: "2.50"}}, "", "@@long_query_time", "2.500000"},
		"a value out of range":    {[]Value{Int("lock_wait_timeout", -5)}, "lock_wait_timeout is \"", "1", "1"},
		"an unknown one":          {[]Value{Int("no_such", 1)}, "set no_such: ", "1", "1"},
		"a wrong value":           {[]Value{Int("lock_wait_timeout", 9), {Name: "sql_mode", SQL: "'NONE'"}}, "set lock_wait_timeout, sql_mode: ", "1", "1"},
		"restricted, as it is":    {[]Value{{Name: "sql_log_bin", SQL: "1", restricted: true}}, "", "@@sql_log_bin", "1"},
		"restricted, not as it is": {
			[]Value{{Name: "sql_log_bin", SQL: "0", restricted: true}}, "and the account may not set it", "@@sql_log_bin", "1",
		},
		"restricted, but permitted": {[]Value{{Name: "sql_notes", SQL: "1", restricted: true}}, "", "@@sql_notes", "1"},
	} {
		if name == "restricted, but permitted" {
			if err := Set(t.Context(), c, Int("sql_notes", 0)); err != nil {
				t.Fatal(err)
			}
		}
		err := Set(t.Context(), c, set.values...)
		if (err == nil) != (set.want == "") || err != nil && !strings.Contains(err.Error(), set.want) {
			t.Errorf("%s: got %v, want %q", name, err, set.want)
		}
		if got := value(set.reads); got != set.is {
			t.Errorf("%s: %s is %s, want %s", name, set.reads, got, set.is)
		}
	}
	if err := Set(t.Context(), c, Usual(c, "sql_mode")...); err != nil {
		t.Fatal(err)
	}
	const hard = `a\'b"\n`
	if got := value(Quote(hard)); got != hard {
		t.Errorf("quoted, %s becomes %s", hard, got)
	}
	if err := ReadCommitted(t.Context(), c); err != nil || value("@@tx_isolation") != "READ-COMMITTED" {
		t.Errorf("the isolation is %s, %v", value("@@tx_isolation"), err)
	}
	if err := ReadOnly(t.Context(), c); err != nil || value("@@tx_read_only") != "1" {
		t.Errorf("read-only: %s, %v", value("@@tx_read_only"), err)
	}
	if _, err := c.Exec(t.Context(), "SET lock_wait_timeout = 3, sql_mode = 'ANSI'"); err != nil {
		t.Fatal(err)
	}
	if err := Renew(t.Context(), c, Int("lock_wait_timeout", 4)); err != nil || value("@@lock_wait_timeout") != "4" || strings.Contains(value("@@sql_mode"), "ANSI") {
		t.Errorf("renewed: %v, %s", err, value("CONCAT(@@lock_wait_timeout, ' ', @@sql_mode)"))
	}

	blame := func(err error, values ...Value) string {
		return (&batch{values: values}).blame(t.Context(), c, err).Error()
	}
	wrong := &mysqlconn.ServerError{Number: 1231, Message: "it cannot be that value"}
	good, bad, restricted := Int("sql_notes", 1), Value{Name: "sql_mode", SQL: "'NONE'"}, Value{Name: "sql_mode", SQL: "'NONE'", restricted: true}
	if got := blame(wrong, good, bad); !strings.HasPrefix(got, "set sql_mode = 'NONE': ") {
		t.Errorf("blamed: %s", got)
	}
	if got := blame(wrong, good, Int("no_such", 1), bad); !strings.HasPrefix(got, "set sql_mode = 'NONE': ") {
		t.Errorf("behind an unknown one: %s", got)
	}
	if got := blame(wrong, restricted, good); got != wrong.Error() {
		t.Errorf("restricted: %s", got)
	}
	if got := blame(mysqlconn.ErrBroken, bad); got != mysqlconn.ErrBroken.Error() {
		t.Errorf("a broken connection: %s", got)
	}
	b := &batch{values: []Value{good}}
	for _, row := range []mysqlwire.TextRow{nil, {[]byte("v"), []byte("1"), []byte("1")}, {[]byte("v"), []byte("x"), []byte("1"), []byte("1")}, {[]byte("v"), []byte("4294967296"), []byte("1"), []byte("1"), nil}} {
		if err := b.row(row); err == nil {
			t.Errorf("read %q", row)
		}
	}
	row := mysqlwire.TextRow{[]byte("v"), []byte("7"), nil, []byte("1")}
	if err := b.row(row); err != nil || b.id != 7 || b.version != "v" || b.got[0] != (reading{"NULL", "1"}) {
		t.Errorf("read %+v, %v", b, err)
	}
	if err := b.row(row); err == nil {
		t.Error("read a second row")
	}
	for d, want := range map[time.Duration]string{0: "1", 1: "1", time.Second: "1", time.Second + 1: "2", 90 * time.Second: "90", -time.Hour: "1"} {
		if got := Seconds("x", d); got.SQL != want {
			t.Errorf("%v is %s seconds", d, got.SQL)
		}
	}
	for _, r := range []struct {
		got, want string
		same      bool
	}{{"1", "1", true}, {"1.0", "1", true}, {"1", "2", false}, {"a,B", "b,a", true}, {"a", "a,b", false}, {"a,a", "a", false}, {"NULL", "", false}, {"x", "1", false}} {
		if (reading{r.got, r.want}).same() != r.same {
			t.Errorf("%q and %q are the same: %t", r.got, r.want, !r.same)
		}
	}
	for _, mysql := range []bool{false, true} {
		version, want := "11.4.2-MariaDB", "tx_read_only"
		if mysql {
			version, want = "8.4.0", "transaction_read_only"
		}
		if got := ofTransactions(&mysqlconn.Client{ServerVersion: version}, "read_only", "1"); got.Name != want || got.SQL != "1" {
			t.Errorf("%s: %+v", version, got)
		}
	}
}
