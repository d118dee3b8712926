package copier

import (
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
)

// TestUseOneThread has MySQL build indexes with one thread; of MariaDB nothing is changed.
func TestUseOneThread(t *testing.T) {
	for _, tt := range []struct {
		name      string
		opts      []testmysql.Option
		variables []string
	}{
		{"MariaDB", nil, nil},
		{"MySQL", []testmysql.Option{testmysql.WithMySQL()}, []string{"@@SESSION.innodb_ddl_threads", "@@SESSION.innodb_parallel_read_threads"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := testrows.Connect(t, testrows.Root(testmysql.StartOrSkip(t, tt.opts...)))
			if err := useOneThread(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			for _, v := range tt.variables {
				if got, err := session.QueryValue(t.Context(), c, "SELECT "+v); err != nil || got != "1" {
					t.Errorf("%s is %s, %v", v, got, err)
				}
			}
		})
	}
}
