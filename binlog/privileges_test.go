package binlog

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// TestDirectPrivileges grants privileges to an account that is connected already: they apply to the next
// call.
func TestDirectPrivileges(t *testing.T) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startOrSkip(t, append(opts, testmysql.WithBinlog())...)
			admin := connect(t, root(server))
			exec(t, admin, "CREATE USER late IDENTIFIED BY '"+testmysql.Password+"'")
			cfg := root(server)
			cfg.User = "late"
			d := direct(t, cfg)
			if p, err := d.CurrentPosition(t.Context()); err == nil || !strings.Contains(err.Error(), "GRANT") {
				t.Errorf("without privileges: %v, %v", p, err)
			}
			exec(t, admin, "GRANT ALL ON *.* TO late")
			if _, err := d.CurrentPosition(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
