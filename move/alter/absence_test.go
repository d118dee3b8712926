package alter

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestNoErrorIsAbsence has the server fail at each statement of a lint, in turn: the lint fails with the server's error, or has it in its
// result, and does not go without what the statement reads, such as the size of the table.
func TestNoErrorIsAbsence(t *testing.T) {
	aloneOnBoth(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE "+d.schema+".t (id INT PRIMARY KEY, a VARCHAR(10))", "INSERT INTO "+d.schema+".t VALUES (1, 'x')")
		proxy := testproxy.StartFaulty(t, d.server.Addr)
		for _, clauses := range []string{"ADD COLUMN note INT", "MODIFY a VARCHAR(20)"} {
			o := d.options("t", clauses)
			o.On.Addr, o.On.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
			lint := func() error {
				p, err := Lint(t.Context(), o)
				if err != nil {
					return err
				}
				text, err := json.Marshal(p)
				if err == nil && strings.Contains(string(text), testproxy.RefusedText) {
					err = errors.New(string(text))
				}
				return err
			}
			proxy.EachFails(t, lint, "SELECT VERSION(), CONNECTION_ID(),", // sent again with each variable that the server does not have
				"DROP TABLE IF EXISTS `_tare`.`alter_probe_") // the next lint drops it
		}
	})
}
