package main

import (
	"database/sql"
	"regexp"
	"strconv"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// TestSessionMetrics holds a row lock in a transaction and has another session wait for it: the metrics count both by their
// states, and have the ages of the statement and of the transaction.
func TestSessionMetrics(t *testing.T) {
	server := testmysql.Start(t)
	must(t, server.Exec("CREATE DATABASE shop", "CREATE TABLE shop.goods (id INT PRIMARY KEY, n INT)", "INSERT INTO shop.goods VALUES (1, 1)"))
	s := startServe(t, server.Addr)
	db, err := sql.Open("mysql", testmysql.RootUser+":"+testmysql.Password+"@tcp("+s.listen+")/shop")
	must(t, err)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	_, err = tx.ExecContext(t.Context(), "UPDATE goods SET n = 2 WHERE id = 1")
	must(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(t.Context(), "UPDATE goods SET n = 3 WHERE id = 1")
		done <- err
	}()
	metrics := func() map[string]float64 {
		_, body := do(t, getRequest(t, s.http+"/metrics"), "")
		all := make(map[string]float64)
		for _, m := range regexp.MustCompile(`(?m)^(tare_sessions\{[^}]*\}|tare_oldest_\w+) (\S+)$`).FindAllStringSubmatch(body, -1) {
			v, err := strconv.ParseFloat(m[2], 64)
			must(t, err)
			all[m[1]] = v
		}
		return all
	}
	const waits, idle = `tare_sessions{state="waiting-for-backend"}`, `tare_sessions{state="idle-in-transaction"}`
	testwait.Until(t, "both sessions, older than a tenth of a second", func() bool {
		m := metrics()
		return m[waits] == 1 && m[idle] == 1 && m["tare_oldest_statement_seconds"] > 0.1 && m["tare_oldest_transaction_seconds"] > m["tare_oldest_statement_seconds"]
	})
	must(t, tx.Commit())
	must(t, testwait.Receive(t, "the statement", done))
	testwait.Until(t, "no session in a state", func() bool {
		m := metrics()
		return m[waits] == 0 && m[idle] == 0 && m["tare_oldest_statement_seconds"] == 0 && m["tare_oldest_transaction_seconds"] == 0
	})
}
