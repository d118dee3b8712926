package pool

import (
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestParamTypes has owners execute a statement.
func TestParamTypes(t *testing.T) {
	of := func(c mysqlwire.ColumnType) ParamType { return ParamTypeOf(mysqlwire.ValueType{Type: c}) }
	integer, decimal, text := of(mysqlwire.TypeLongLong), of(mysqlwire.TypeNewDecimal), of(mysqlwire.TypeVarString)
	if of(mysqlwire.TypeTiny) != integer || ParamTypeOf(mysqlwire.ValueType{Type: mysqlwire.TypeLong, Unsigned: true}) == integer || of(mysqlwire.TypeBlob) != text ||
		of(mysqlwire.TypeDate) == of(mysqlwire.TypeDatetime) || of(mysqlwire.TypeNull) != 0 || of(mysqlwire.TypeFloat) != of(mysqlwire.TypeDouble) {
		t.Error("types")
	}
	var p ParamTypes
	execute := func(owner uint64, types ...ParamType) (fits bool) {
		fits = true
		for i, v := range types {
			fits = fits && p.Fits(owner, i, v)
		}
		p.Executed(owner, len(types))
		for i, v := range types {
			p.Set(i, v)
		}
		return fits
	}
	for i, c := range []struct {
		owner uint64
		types [2]ParamType
		want  bool
	}{
		{1, [2]ParamType{integer, text}, true},
		{1, [2]ParamType{integer, text}, true},
		{2, [2]ParamType{integer, text}, true},
		{3, [2]ParamType{0, text}, true},
		{3, [2]ParamType{decimal, text}, false},
		{1, [2]ParamType{integer, text}, false},
		{1, [2]ParamType{0, text}, true},
	} {
		if got := execute(c.owner, c.types[0], c.types[1]); got != c.want {
			t.Errorf("execution %d: fits %v", i, got)
		}
	}
	p = ParamTypes{}
	if !execute(1, integer) || !execute(1, decimal) || !execute(1, integer) || execute(2, integer) {
		t.Error("want an owner's executions alone to fit, and no other one's after them")
	}
	p = ParamTypes{}
	execute(1, 0)
	p.Blur()
	if execute(2, text) {
		t.Error("an execution after one with unknown types fits")
	}
	alloctest.Run(t, []alloctest.Case{{Name: "execution", Op: func() error { execute(1, integer); return nil }}})
}
