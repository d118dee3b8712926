package binlog_test

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
)

// TestDirectPrivileges grants privileges to an account that is connected already: they apply to the next
// call.
func TestDirectPrivileges(t *testing.T) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testmysql.StartOrSkip(t, append(opts, testmysql.WithBinlog())...)
			admin := testrows.Connect(t, testrows.Root(server))
			testrows.Exec(t, admin, "CREATE USER late IDENTIFIED BY '"+testmysql.Password+"'")
			cfg := testrows.Root(server)
			cfg.User = "late"
			d := testrows.Direct(t, cfg)
			if p, err := d.CurrentPosition(t.Context()); err == nil || !strings.Contains(err.Error(), "GRANT REPLICATION CLIENT") || !strings.Contains(err.Error(), "denied") {
				t.Errorf("without privileges: %v, %v", p, err)
			}
			testrows.Exec(t, admin, "GRANT ALL ON *.* TO late")
			if _, err := d.CurrentPosition(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
