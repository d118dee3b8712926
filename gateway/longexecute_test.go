package gateway_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestBindsAfterLongExecution executes a statement with a value that is longer than the statement memory, and then
// with short ones whose types are not sent again: the log has their values.
func TestBindsAfterLongExecution(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	d := openDialogue(t, g.addr, scriptCaps&^mysqlwire.CapConnectWithDB)
	if r, err := d.run("prepare do length(?)"); err != nil || ending(r) == "ERR" {
		t.Fatalf("%v, %q", err, r.packets)
	}
	for i, c := range []struct {
		types string
		bytes int
		want  string
	}{
		{"\x01\xfd\x00", 2 << 20, "[]"}, // VAR_STRING
		{"\x00", 5, "[VAR_STRING 5]"},
		{"\x01\xfc\x00", 17 << 20, "[]"}, // BLOB, in two packets
		{"\x00", 5, "[BLOB 5]"},
	} {
		params := mysqlwire.AppendLenencString([]byte("\x00"+c.types), bytes.Repeat([]byte("x"), c.bytes))
		if r, err := d.run("execute 00" + string(params)); err != nil || ending(r) != "OK" {
			t.Fatalf("a value of %d bytes: %v, %.200q", c.bytes, err, r.packets)
		}
		r, _, _ := g.records.wait(t, 1+i)
		got := []string{}
		for _, v := range r.Binds {
			got = append(got, fmt.Sprint(v.Type, " ", len(v.Data)))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("execution %d: binds %v, want %s", i, got, c.want)
		}
	}
}
