package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Value is a session variable with the value that it is to have.
type Value struct {
	Name string
	SQL  string // the value as an expression: a number, a quoted text, NULL, or @@GLOBAL.name

	restricted bool // see the package's terms
}

// wanted returns the expression of the value.
func (v Value) wanted() string {
	if v.SQL == off {
		return "'" + off + "'"
	}
	return v.SQL
}

// Int returns a Value of a number.
func Int[N ~int | ~int64](name string, n N) Value {
	return Value{Name: name, SQL: strconv.FormatInt(int64(n), 10)}
}

// Seconds returns a Value of a time in whole seconds, at least one.
func Seconds(name string, d time.Duration) Value {
	return Int(name, max(1, int(math.Ceil(d.Seconds()))))
}

// ReadCommitted sets the isolation level of the session's next transactions.
func ReadCommitted(ctx context.Context, c *mysqlconn.Client) error {
	return Set(ctx, c, ofTransactions(c, "isolation", "'READ-COMMITTED'"))
}

// ReadOnly makes the session's next transactions read-only.
func ReadOnly(ctx context.Context, c *mysqlconn.Client) error {
	return Set(ctx, c, ofTransactions(c, "read_only", "1"))
}

// ofTransactions returns a variable that MariaDB names tx_… and MySQL transaction_….
func ofTransactions(c *mysqlconn.Client, name, value string) Value {
	if IsMariaDB(c.ServerVersion) {
		return Value{Name: "tx_" + name, SQL: value}
	}
	return Value{Name: "transaction_" + name, SQL: value}
}

// Quote returns a text as a literal for sessions of this package, whose sql_mode has escapes by backslashes.
func Quote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(text) + "'"
}

// Set sets variables of a session and reads them back in the same round trip. One that did not take is an
// error with its name.
func Set(ctx context.Context, c *mysqlconn.Client, values ...Value) error {
	b := batch{values: values}
	if err := b.run(ctx, c); err != nil {
		return fmt.Errorf("set %s: %w", names(values), err)
	}
	return b.check(ctx, c)
}

// Usual returns the values that Open gives to variables on the server of c, to restore them.
func Usual(c *mysqlconn.Client, variables ...string) []Value {
	return slices.DeleteFunc(valuesOf(c.ServerVersion, true, nil), func(v Value) bool { return !slices.Contains(variables, v.Name) })
}

func names(values []Value) string {
	var all []string
	for _, v := range values {
		all = append(all, v.Name)
	}
	return strings.Join(all, ", ")
}

// A batch is the values of one round trip, and what the server returned.
type batch struct {
	values []Value

	version string
	id      uint32
	got     []reading // by value
}

// A reading is a variable's value and the wanted one, as the server formats them. NULL is no valid value.
type reading struct{ got, want string }

// leading is the number of columns before those of the values.
const leading = 2

// run sets the values except restricted ones, and reads all of them.
func (b *batch) run(ctx context.Context, c *mysqlconn.Client) error {
	var set, read strings.Builder
	read.WriteString("SELECT VERSION(), CONNECTION_ID()")
	for _, v := range b.values {
		if !v.restricted {
			if set.Len() > 0 {
				set.WriteString(", ")
			}
			set.WriteString("@@SESSION." + v.Name + " = " + v.SQL)
		}
		read.WriteString(", @@SESSION." + v.Name + ", " + v.wanted())
	}
	statements := []string{read.String()}
	if set.Len() > 0 {
		statements = []string{"SET " + set.String(), read.String()}
	}
	b.got = b.got[:0]
	err := c.Pipeline(ctx, statements, func(_ int, row mysqlwire.TextRow) error { return b.row(row) })
	if err == nil && len(b.got) != len(b.values) {
		err = errors.New("the server returned no row with the session's variables")
	}
	return err
}

// blame returns the error of a refused batch with the name of the variable that the server refuses: its own
// text may have no name.
func (b *batch) blame(ctx context.Context, c *mysqlconn.Client, err error) error {
	var refused *mysqlconn.ServerError
	if !errors.As(err, &refused) {
		return err
	}
	for _, v := range b.values {
		if v.restricted {
			continue
		}
		// A variable that the server does not have is another error, and no reason.
		err := c.Pipeline(ctx, []string{"SET @@SESSION." + v.Name + " = " + v.SQL}, nil)
		if one := new(mysqlconn.ServerError); errors.As(err, &one) && one.Number == refused.Number {
			return fmt.Errorf("set %s = %s: %w", v.Name, v.SQL, err)
		}
	}
	return err
}

func (b *batch) row(row mysqlwire.TextRow) error {
	if len(row) != leading+2*len(b.values) || len(b.got) > 0 {
		return fmt.Errorf("%d columns instead of one row of %d", len(row), leading+2*len(b.values))
	}
	b.version = string(row[0])
	id, err := strconv.ParseUint(string(row[1]), 10, 64)
	if err != nil {
		return fmt.Errorf("read CONNECTION_ID(): %w", err)
	}
	b.id = uint32(id)
	for i := range b.values {
		at := leading + 2*i
		b.got = append(b.got, reading{text(row[at]), text(row[at+1])})
	}
	return nil
}

// text returns a value of a row; NULL is "NULL", which no variable has as its text.
func text(v []byte) string {
	if v == nil {
		return "NULL"
	}
	return string(v)
}

// check returns an error unless all values are as wanted, after setting the restricted ones that are not.
func (b *batch) check(ctx context.Context, c *mysqlconn.Client) error {
	for i, v := range b.values {
		r := b.got[i]
		switch {
		case r.same():
		case !v.restricted:
			return fmt.Errorf("%s is %q after it was set to %q: init_connect, a proxy or a limit of the server changes it", v.Name, r.got, r.want)
		default:
			v.restricted = false
			err := Set(ctx, c, v)
			var refused *mysqlconn.ServerError
			if errors.As(err, &refused) {
				err = fmt.Errorf("%s is %q, %q is needed, and the account may not set it: %w; SET GLOBAL %s = %s on the server, or grant the privilege",
					v.Name, r.got, r.want, err, v.Name, v.SQL)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// same reports whether a value is the wanted one: as numbers, or as texts and lists whose case and order servers choose.
func (r reading) same() bool {
	if r.got == r.want {
		return true
	}
	got, err := strconv.ParseFloat(r.got, 64)
	want, wantErr := strconv.ParseFloat(r.want, 64)
	if err == nil && wantErr == nil {
		return got == want
	}
	return slices.Equal(list(r.got), list(r.want))
}

// list returns the sorted elements of a value that is a list.
func list(value string) []string {
	all := strings.Split(strings.ToLower(value), ",")
	slices.Sort(all)
	return all
}

// unknownVariable returns the variable that an error is about; empty if it is another error. The error's text
// is in the server's language, but contains the name.
func unknownVariable(err error, values []Value) (name string) {
	var refused *mysqlconn.ServerError
	if !errors.As(err, &refused) || refused.Number != errUnknownVariable {
		return ""
	}
	for _, v := range values {
		if len(v.Name) > len(name) && strings.Contains(refused.Message, v.Name) {
			name = v.Name
		}
	}
	return name
}

func isIn(values []Value, name string) bool {
	return slices.ContainsFunc(values, func(v Value) bool { return v.Name == name })
}

func without(values []Value, name string) []Value {
	return slices.DeleteFunc(slices.Clone(values), func(v Value) bool { return v.Name == name })
}
