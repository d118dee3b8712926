//go:build e2e

package settings

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// list returns the cases: every variable that can be set, with each of its values, on each side.
func (p *pair) list(t *testing.T) (all []setting) {
	t.Helper()
	query := "SELECT LOWER(VARIABLE_NAME), VARIABLE_TYPE, COALESCE(GLOBAL_VALUE, ''), COALESCE(ENUM_VALUE_LIST, ''), COALESCE(NUMERIC_MIN_VALUE, ''), COALESCE(NUMERIC_MAX_VALUE, '')" +
		" FROM information_schema.SYSTEM_VARIABLES WHERE READ_ONLY = 'NO' AND VARIABLE_SCOPE <> 'SESSION ONLY' ORDER BY 1"
	if p.mysql {
		query = "SELECT m.VARIABLE_NAME, m.DATA_TYPE, COALESCE(g.VARIABLE_VALUE, ''), '', m.MIN_VALUE, m.MAX_VALUE FROM performance_schema.variables_metadata m" +
			" JOIN performance_schema.global_variables g USING (VARIABLE_NAME) ORDER BY 1"
	}
	rows, err := p.sessions[0].Query(query)
	must(t, err)
	defer rows.Close()
	var variables [][6]string
	for rows.Next() {
		var v [6]string
		must(t, rows.Scan(&v[0], &v[1], &v[2], &v[3], &v[4], &v[5]))
		variables = append(variables, v)
	}
	must(t, rows.Err())
	rows.Close()
	for _, v := range variables {
		name := v[0]
		if reason := unfit(name); reason != "" || p.exec(0, "SET GLOBAL "+name+" = @@GLOBAL."+name) != nil {
			continue
		}
		p.names = append(p.names, name)
		for _, value := range p.values(t, name, v[2], strings.ToUpper(v[1]), v[3], v[4], v[5]) {
			for _, sides := range []string{"source", "target", "both"} {
				if c := (setting{name, value, sides}); !slices.Contains(all, c) {
					all = append(all, c)
				}
			}
		}
	}
	for i := range p.servers {
		p.before[i] = p.globals(t, i)
	}
	return all
}

// values returns the values of a variable, as in SET.
func (p *pair) values(t *testing.T, name, now, kind, list, least, most string) (values []string) {
	t.Helper()
	column := func(query string) {
		rows, err := p.sessions[0].Query(query)
		must(t, err)
		defer rows.Close()
		for rows.Next() {
			var v string
			must(t, rows.Scan(&v))
			values = append(values, quote(v))
		}
		must(t, rows.Err())
	}
	switch {
	case strings.HasPrefix(name, "character_set_") && name != "character_set_collations":
		column("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
	case strings.HasPrefix(name, "collation_"):
		column("SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE IS_DEFAULT = 'Yes' OR COLLATION_NAME LIKE '%\\_bin'")
	case strings.HasSuffix(name, "storage_engine"):
		column("SELECT ENGINE FROM information_schema.ENGINES WHERE SUPPORT IN ('YES', 'DEFAULT')")
	case name == "time_zone":
		values = []string{"'-12:00'", "'+13:00'"}
	case strings.HasPrefix(name, "lc_"):
		values = []string{"'de_DE'", "'ja_JP'", "'ru_RU'"}
	case name == "sql_mode":
		for i := range 32 {
			values = append(values, fmt.Sprint(uint64(1)<<i))
		}
		values = append(values, "''", "'ANSI'", "'ORACLE'", "'TRADITIONAL'")
	case strings.Contains(now, "=on"): // flags: each of them, the other way
		for _, flag := range strings.Split(now, ",") {
			flag, state, _ := strings.Cut(flag, "=")
			values = append(values, quote(flag+"="+map[string]string{"on": "off", "off": "on"}[state]))
		}
	case kind == "BOOLEAN":
		values = []string{"0", "1"}
	case list != "":
		for _, v := range strings.Split(list, ",") {
			values = append(values, quote(v))
		}
	case kind == "ENUMERATION": // MySQL sets them by number
		for i := range 12 {
			values = append(values, fmt.Sprint(i))
		}
	case kind == "SET":
		values = []string{"''"}
		for i := range 12 {
			values = append(values, fmt.Sprint(1<<i))
		}
	case least != "" || most != "":
		values = []string{least, most}
		if least == "0" { // often the default, for no limit
			values = append(values, "1")
		}
		if kind == "DOUBLE" {
			values = append(values, "0.001")
		}
	default:
		values = []string{"''", "'tare'", "'0'"}
	}
	return values
}

// unfit returns why a variable has no cases: the test cannot restore it, or it ends the server.
func unfit(name string) string {
	for _, prefix := range []string{"innodb_buffer_pool_", "innodb_redo_log_capacity", "innodb_log_file_size", "debug", "keyring", "ssl_", "tls_", "admin_", "caching_sha2", "validate_password"} {
		if strings.HasPrefix(name, prefix) {
			return "it changes files or accounts of the server"
		}
	}
	return ""
}
