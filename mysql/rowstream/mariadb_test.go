package rowstream_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/rowstream"
)

func TestReadTable(t *testing.T) {
	cfg := testrows.App(testmysql.Start(t))
	c := testrows.Connect(t, cfg)
	testrows.Exec(t, c, "CREATE OR REPLACE DATABASE described",
		"CREATE TABLE described.parent (id INT PRIMARY KEY)",
		"CREATE TABLE described.`a``b é` (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, p INT, e ENUM('x','y'), g INT AS (p + 1) STORED, h INT INVISIBLE, v INT AS (p+2) VIRTUAL, FOREIGN KEY f (p) REFERENCES described.parent (id))",
		"CREATE TRIGGER described.watch BEFORE INSERT ON described.`a``b é` FOR EACH ROW SET NEW.p = 1",
		"CREATE VIEW described.v AS SELECT 1")
	table, err := rowstream.ReadTable(t.Context(), c, "described", "a`b é")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, col := range table.Columns {
		names = append(names, col.Name)
	}
	if diff := cmp.Diff([]string{"id", "p", "e", "h"}, names); diff != "" {
		t.Error(diff)
	}
	if id := table.Columns[0]; !id.Auto || !id.Unsigned || !table.Columns[3].Invisible || table.KeyName != "PRIMARY" || len(table.Triggers) != 1 {
		t.Errorf("%+v", table)
	}
	list, set := rowstream.LoadColumns(table.Columns)
	if want := "(@v0, `p`, @v2, `h`) SET `id` = @v0, `e` = CAST(@v2 AS SIGNED)"; list+set != want {
		t.Errorf("%s, want %s", list+set, want)
	}
	if parent, err := rowstream.ReadTable(t.Context(), c, "described", "parent"); err != nil || parent.KeyName != "PRIMARY" {
		t.Errorf("the table that another refers to: %+v, %v", parent, err)
	}
	for name, want := range map[string]string{"v": "it is a view", "nothing": rowstream.ErrNoTable.Error()} {
		if _, err := rowstream.ReadTable(t.Context(), c, "described", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSnapshot takes snapshots in each way while writers are active: all connections see the same sum.
func TestSnapshot(t *testing.T) {
	for name, server := range map[string]*testmysql.Server{"binlog": testmysql.Start(t, testmysql.WithBinlog()), "no binlog": testmysql.Start(t)} {
		for _, user := range []string{testmysql.RootUser, testmysql.AppUser} {
			t.Run(name+" as "+user, func(t *testing.T) {
				cfg := testrows.App(server)
				c := testrows.Connect(t, cfg)
				testrows.Exec(t, c, "CREATE OR REPLACE DATABASE snap", "CREATE TABLE snap.t (id INT PRIMARY KEY, n BIGINT) ENGINE=InnoDB", "INSERT INTO snap.t VALUES (1, 0), (2, 0)")
				stop, stopped := make(chan struct{}), make(chan error)
				writer := testrows.Connect(t, cfg)
				go func() {
					for {
						select {
						case <-stop:
							stopped <- nil
							return
						default:
						}
						if _, err := writer.Exec(t.Context(), "UPDATE snap.t SET n = n + 1"); err != nil {
							stopped <- err
							return
						}
					}
				}()
				table := &rowstream.Table{Schema: "snap", Name: "t"}
				cfg.User = user
				for range 5 {
					s, err := rowstream.OpenSnapshot(t.Context(), cfg, 4, []*rowstream.Table{table})
					if err != nil {
						t.Fatal(err)
					}
					sums := map[string]bool{}
					for _, client := range rowstream.Clients(s) {
						sums[testrows.Column(t, client, "SELECT GROUP_CONCAT(n) FROM snap.t")[0]] = true
					}
					if len(sums) != 1 {
						t.Errorf("by %s the connections see %v", s.How(), sums)
					}
					if (s.Position() == "") != (name == "no binlog") && user == testmysql.RootUser {
						t.Errorf("by %s the position is %q", s.How(), s.Position())
					}
					if err := s.Close(); err != nil {
						t.Error(err)
					}
					t.Log(s.How(), s.Position())
				}
				close(stop)
				if err := testwait.Receive(t, "the writer to stop", stopped); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
