package gateway_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqlplan"
)

// TestDefaultDenyCommands sends a statement with the words of each command that the server counts. An allow rule with users
// only lets all of them pass; one with the type select and a table refuses all.
func TestDefaultDenyCommands(t *testing.T) {
	servers := refusalServers(t)
	servers["MySQL"] = []testmysql.Option{testmysql.WithMySQL()}
	for name, options := range servers {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, options...)
			g := startGateway(t, s.Addr, nil)
			c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: g.addr, User: testmysql.AppUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled})
			must(t, err)
			t.Cleanup(func() { c.Close() })
			var texts []string
			_, err = c.Query(t.Context(), `SHOW GLOBAL STATUS LIKE 'Com\_%'`, func(row mysqlwire.TextRow) error {
				texts = append(texts, strings.ReplaceAll(strings.ToUpper(strings.TrimPrefix(string(row[0]), "Com_")), "_", " ")+" x")
				return nil
			})
			must(t, err)
			if len(texts) < 100 {
				t.Fatalf("the server counts %d commands", len(texts))
			}
			for _, rule := range []sqlplan.Rule{
				{Name: "users", Action: sqlplan.ActionAllow, Users: []string{testmysql.AppUser}},
				{Name: "select", Action: sqlplan.ActionAllow, Types: []sqlplan.Type{sqlplan.TypeSelect}, Tables: []string{"shop.t"}},
			} {
				must(t, g.planner.SetRules([]sqlplan.Rule{rule}))
				for _, text := range texts {
					_, err := c.Query(t.Context(), text, func(mysqlwire.TextRow) error { return nil })
					var e *mysqlconn.ServerError
					if err != nil && !errors.As(err, &e) {
						t.Fatalf("%s: %v", text, err)
					}
					refused := err != nil && strings.Contains(err.Error(), "Tare refused")
					if refused != (rule.Name == "select") {
						t.Errorf("rule %s: %s: refused %v: %v", rule.Name, text, refused, err)
					}
				}
			}
		})
	}
}
