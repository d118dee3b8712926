package explain

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/mysql/sqldigest"
)

const (
	maxSteps = 64 // of a plan; the rest is only part of its ID
	maxDepth = 64 // of the JSON
)

// A Plan is how the server executes a statement.
type Plan struct {
	ID     string               `json:"id"` // equal for plans with the same tables, access types, keys and order
	Server sqldigest.ServerKind `json:"-"`
	Steps  []Step               `json:"steps"` // in the order of the join
	Cut    bool                 `json:"cut,omitempty"`

	First time.Time `json:"first"` // when the server first chose it
	Last  time.Time `json:"last"`
}

// A Step is the access to one table.
type Step struct {
	Depth  int     `json:"depth"`         // of subqueries and materialized tables
	How    string  `json:"how,omitempty"` // the operation on the rows: "sort", "temporary table", "materialized", "subquery", "union"
	Table  string  `json:"table"`
	Access string  `json:"access"`        // "ALL", "ref", "range", …
	Key    string  `json:"key,omitempty"` // the index
	Rows   float64 `json:"rows"`          // the server's estimate per read, at the time of Plan.First
}

// String returns the step in one line.
func (s Step) String() string {
	line := strings.Repeat("  ", s.Depth)
	if s.How != "" {
		line += s.How + ": "
	}
	line += s.Table + " " + accessText(s.Access)
	if s.Key != "" {
		line += " by " + s.Key
	}
	noun := " rows"
	if s.Rows == 1 {
		noun = " row"
	}
	return line + ", " + strconv.FormatFloat(s.Rows, 'f', -1, 64) + noun
}

// accessText describes an access type in words.
func accessText(access string) string {
	switch access {
	case "ALL":
		return "full scan"
	case "index":
		return "full index scan"
	}
	return access
}

// errNoPlan is returned for a statement that reads no table with these values.
var errNoPlan = errors.New("with these values the server reads no table")

// parsePlan parses the JSON of EXPLAIN.
func parsePlan(text []byte, server sqldigest.ServerKind) (*Plan, error) {
	var root any
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	w := planWalk{}
	if err := w.walk(root, 0, 0, ""); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	if len(w.steps) == 0 {
		return nil, errNoPlan
	}
	p := &Plan{Server: server, ID: planID(server, w.steps)}
	p.Cut = len(w.steps) > maxSteps
	p.Steps = slices.Clone(w.steps[:min(len(w.steps), maxSteps)])
	return p, nil
}

// planID hashes the properties that distinguish plans.
func planID(server sqldigest.ServerKind, steps []Step) string {
	h := sha256.New()
	fmt.Fprintf(h, "tare plan 1 %s\n", server)
	for _, s := range steps {
		fmt.Fprintf(h, "%d %q %q %q\n", s.Depth, s.Table, s.Access, s.Key)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// A planWalk collects the steps of the JSON. Members of an object are visited in the order of their names,
// items of a list, such as the tables of a join, in list order.
type planWalk struct {
	steps []Step
}

// hows are the members that describe an operation on the rows below them; those with a nested query are
// deeper.
var hows = map[string]struct {
	name   string
	deeper bool
}{
	"filesort": {"sort", false}, "read_sorted_file": {"sort", false}, "ordering_operation": {"sort", false},
	"temporary_table": {"temporary table", false}, "grouping_operation": {"group", false}, "duplicates_removal": {"distinct", false},
	"materialized": {"materialized", true}, "materialized_from_subquery": {"materialized", true},
	"subqueries": {"subquery", true}, "attached_subqueries": {"subquery", true}, "optimized_away_subqueries": {"subquery", true},
	"select_list_subqueries": {"subquery", true}, "having_subqueries": {"subquery", true}, "order_by_subqueries": {"subquery", true},
	"group_by_subqueries": {"subquery", true}, "update_value_subqueries": {"subquery", true}, "expression_cache": {"cache", false},
	"union_result": {"union", true}, "query_specifications": {"", false}, "windows_computation": {"window", false}, "windowing": {"window", false},
	"insert_from": {"from", false}, "buffer_result": {"buffer", false},
}

func (w *planWalk) walk(node any, level, depth int, how string) error {
	switch node.(type) {
	case []any, map[string]any:
		if level > maxDepth {
			return fmt.Errorf("deeper than %d levels", maxDepth)
		}
	}
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			if err := w.walk(item, level+1, depth, how); err != nil {
				return err
			}
		}
	case map[string]any:
		table, named := node["table_name"].(string)
		access, accessed := node["access_type"].(string)
		if named && accessed && !strings.HasPrefix(table, "<union") {
			key, _ := node["key"].(string)
			w.steps = append(w.steps, Step{Depth: depth, How: how, Table: table, Access: access, Key: key, Rows: rowsOf(node)})
			how = ""
		}
		for _, name := range slices.Sorted(maps.Keys(node)) {
			next, below := how, depth
			h := hows[name]
			if h.name != "" {
				next = h.name
			}
			if h.deeper {
				below++
			}
			if err := w.walk(node[name], level+1, below, next); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowsOf returns the estimated rows of a table: MariaDB's rows, MySQL's rows_examined_per_scan.
func rowsOf(table map[string]any) float64 {
	for _, name := range []string{"rows", "rows_examined_per_scan"} {
		if n, ok := table[name].(float64); ok {
			return n
		}
	}
	return 0
}

// bytes returns the bytes charged for the plan.
func (p *Plan) bytes() int64 {
	n := 128 + len(p.ID)
	for i := range p.Steps {
		s := &p.Steps[i]
		n += 96 + len(s.Table) + len(s.Access) + len(s.Key)
	}
	return int64(n)
}
