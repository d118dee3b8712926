package alter

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/telemetry"
)

// TestSentryInTheWay has a table of another's with the name of the sentry: it is not touched, and the error names it.
func TestSentryInTheWay(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, "MariaDB") // whose swap has a sentry
	d.fillForms("t", 5)
	s := &Statement{Schema: d.schema, Table: "t"}
	d.exec("CREATE TABLE "+s.sqlName(s.sentry())+" (id INT PRIMARY KEY)", "INSERT INTO "+s.sqlName(s.sentry())+" VALUES (1)")
	o := d.options("t", "ADD COLUMN note INT")
	o.AlwaysCopy, o.Observe = true, func(telemetry.Event) {}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), s.sentry()+" is in the way: rename it") {
		t.Errorf("%v", err)
	}
	c := d.connect()
	if n := d.value(c, "SELECT SUM(id) FROM "+s.sqlName(s.sentry())); n != "1" {
		t.Errorf("its rows have the sum %s", n)
	}
	d.exec("DROP TABLE " + s.sqlName(s.sentry()))
	if _, err := Run(t.Context(), o); err != nil {
		t.Errorf("once it is dropped: %v", err)
	}
}
