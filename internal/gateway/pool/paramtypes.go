package pool

import "github.com/taredb/tare/mysql/mysqlwire"

// A ParamType is the type of the values that a parameter of a prepared statement has had. To a MySQL server, the type of a value depends on
// those of the executions before: after a decimal, an integer is a decimal, and after an integer, digits in a string are an integer.
// Types with equal effects are one ParamType. 0: the parameter had no value, or NULL.
type ParamType uint16

const (
	paramSet      ParamType = 1 << 8
	paramUnsigned ParamType = 1 << 9
	paramSeveral  ParamType = 1 << 10 // types
)

// ParamTypeOf returns the type of a value.
func ParamTypeOf(t mysqlwire.ValueType) ParamType {
	switch t.Type {
	case mysqlwire.TypeNull:
		return 0
	case mysqlwire.TypeTiny, mysqlwire.TypeShort, mysqlwire.TypeInt24, mysqlwire.TypeLong, mysqlwire.TypeLongLong:
		if t.Unsigned {
			return paramSet | paramUnsigned | ParamType(mysqlwire.TypeLongLong)
		}
		return paramSet | ParamType(mysqlwire.TypeLongLong)
	case mysqlwire.TypeDecimal, mysqlwire.TypeNewDecimal:
		return paramSet | ParamType(mysqlwire.TypeNewDecimal)
	case mysqlwire.TypeFloat, mysqlwire.TypeDouble:
		return paramSet | ParamType(mysqlwire.TypeDouble)
	case mysqlwire.TypeVarchar, mysqlwire.TypeVarString, mysqlwire.TypeString, mysqlwire.TypeTinyBlob, mysqlwire.TypeMediumBlob, mysqlwire.TypeLongBlob,
		mysqlwire.TypeBlob, mysqlwire.TypeEnum, mysqlwire.TypeSet, mysqlwire.TypeBit:
		return paramSet | ParamType(mysqlwire.TypeVarString)
	case mysqlwire.TypeTimestamp, mysqlwire.TypeDatetime:
		return paramSet | ParamType(mysqlwire.TypeDatetime)
	}
	return paramSet | ParamType(t.Type)
}

// ParamTypes are the types of the values that the parameters of a statement have had since it was prepared on a connection.
type ParamTypes struct {
	types []ParamType
	only  uint64 // the one that has executed the statement, if no other one has: see Statement.Owner
	ever  bool   // an execution was recorded
}

// Fits reports whether an execution by owner, with a value of type t for a parameter, has the same result as if others had not executed
// the statement.
func (p *ParamTypes) Fits(owner uint64, i int, t ParamType) bool {
	return !p.ever || p.only == owner || t == 0 || i < len(p.types) && (p.types[i] == 0 || p.types[i] == t)
}

// Executed records an execution of a statement with n parameters by owner. Set follows for each of its values.
func (p *ParamTypes) Executed(owner uint64, n int) {
	if len(p.types) != n {
		p.types = make([]ParamType, n)
	}
	if p.ever && p.only != owner {
		owner = 0
	}
	p.only, p.ever = owner, true
}

// Set records the type of a value.
func (p *ParamTypes) Set(i int, t ParamType) {
	switch {
	case t == 0 || p.types[i] == t:
	case p.types[i] == 0:
		p.types[i] = t
	default:
		p.types[i] = paramSeveral
	}
}

// Blur records that the types of an execution are not known.
func (p *ParamTypes) Blur() {
	for i := range p.types {
		p.types[i] = paramSeveral
	}
}

// Unused reports whether the statement has not been executed.
func (p *ParamTypes) Unused() bool { return !p.ever }
