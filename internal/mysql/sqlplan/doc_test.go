package sqlplan_test

import (
	"fmt"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A session finds or creates the plan of each statement.
func Example() {
	planner, err := sqlplan.New(sqlplan.Options{CacheBytes: 32 << 20})
	if err != nil {
		panic(err)
	}
	schema, user := []byte("shop"), []byte("app")
	scope := planner.ScopeOf(schema, user, 0) // when the session starts or changes

	var digester sqldigest.Digester
	for _, sql := range []string{
		"SELECT * FROM orders WHERE id = 7",
		"SELECT * FROM orders WHERE id = 8",
		"UPDATE orders JOIN crm.customer USING (customer_id) SET orders.state = 'paid'",
	} {
		digest := digester.Digest([]byte(sql), 0)
		plan := planner.Get(digest, scope)
		hit := plan != nil
		if !hit {
			plan = planner.Plan(sqlplan.Statement{
				SQL: []byte(sql), Complete: true, Text: digester.Text(),
				Digest: digest, Scope: scope, Schema: schema, User: user,
			})
		}
		fmt.Println(plan.Type(), "hit:", hit, "read-only:", plan.ReadOnly())
		for t := range plan.Tables() {
			fmt.Println(" ", t, t.Access)
		}
	}
	// Output:
	// select hit: false read-only: true
	//   shop.orders read
	// select hit: true read-only: true
	//   shop.orders read
	// update hit: false read-only: false
	//   shop.orders read+write
	//   crm.customer read
}

func ExamplePlanner_SetRules() {
	planner, err := sqlplan.New(sqlplan.Options{})
	if err != nil {
		panic(err)
	}
	err = planner.SetRules([]sqlplan.Rule{{
		Name: "reports", Action: sqlplan.ActionReadOnly, Users: []string{"reporter"},
		Message: "reporter only reads",
	}})
	if err != nil {
		panic(err)
	}
	var digester sqldigest.Digester
	for _, user := range []string{"reporter", "app"} {
		st := sqlplan.Statement{SQL: []byte("DELETE FROM shop.orders"), Complete: true, User: []byte(user)}
		st.Digest = digester.Digest(st.SQL, st.Mode)
		st.Text = digester.Text()
		st.Scope = planner.ScopeOf(st.Schema, st.User, st.Mode)
		plan := planner.Plan(st)
		verdict, rule := plan.Verdict()
		fmt.Printf("%s: %s %q %q\n", user, verdict, rule, plan.Message())
	}
	// Output:
	// reporter: read-only "reports" "reporter only reads"
	// app: pass "" ""
}

func ExamplePlan_SessionMode() {
	planner, err := sqlplan.New(sqlplan.Options{})
	if err != nil {
		panic(err)
	}
	var digester sqldigest.Digester
	for _, sql := range []string{"SET sql_mode = 'ANSI_QUOTES'", "SET sql_mode = ''", "SET sql_mode = @old"} {
		st := sqlplan.Statement{SQL: []byte(sql), Complete: true}
		st.Digest = digester.Digest(st.SQL, st.Mode)
		st.Text = digester.Text()
		st.Scope = planner.ScopeOf(st.Schema, st.User, st.Mode)
		plan := planner.Plan(st)
		mode, known := plan.SessionMode(st.SQL, st.Mode)
		fmt.Println(plan.Effects(), "ansi:", mode&sqldigest.ANSIQuotes != 0, "known:", known)
	}
	// Output:
	// session-var,sql-mode ansi: true known: true
	// session-var,sql-mode ansi: false known: true
	// session-var,sql-mode,user-var-read ansi: false known: false
}
