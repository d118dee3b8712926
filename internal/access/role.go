package access

import (
	"context"
	"fmt"
)

// A Role is what an account may do. Each role includes the ones before it; the zero Role may do nothing.
type Role uint8

// Roles.
const (
	Metrics  Role = iota + 1 // metrics and health
	Viewer                   // pages, JSON and PromQL
	Operator                 // calls that change something, and profiles
)

// Roles returns all roles, the least first.
func Roles() []Role { return []Role{Metrics, Viewer, Operator} }

func (r Role) String() string {
	switch r {
	case Metrics:
		return "metrics"
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	}
	return "none"
}

// ParseRole parses the name of a role.
func ParseRole(s string) (Role, error) {
	for _, r := range Roles() {
		if r.String() == s {
			return r, nil
		}
	}
	return 0, fmt.Errorf("unknown role %.40q: want metrics, viewer or operator", s)
}

// A Need is what an endpoint requires of an account. Its zero value admits no account.
type Need struct {
	role    Role
	texts   bool
	changes bool
}

// For returns the Need of at least a role.
func For(r Role) Need { return Need{role: r} }

// WithTexts returns the Need that also requires an account that sees statement texts.
func (n Need) WithTexts() Need { n.texts = true; return n }

// Changing returns the Need of calls that change something: each of them is logged with its account.
func (n Need) Changing() Need { n.changes = true; return n }

// Role returns the least role.
func (n Need) Role() Role { return n.role }

// Texts reports whether the account must see statement texts.
func (n Need) Texts() bool { return n.texts }

// Changes reports whether calls change something.
func (n Need) Changes() bool { return n.changes }

// Declared reports whether n is not the zero value.
func (n Need) Declared() bool { return n.role != 0 }

// String returns the Need as a sentence names it: "the role viewer with statement texts".
func (n Need) String() string {
	if n.texts {
		return "the role " + n.role.String() + " with statement texts"
	}
	return "the role " + n.role.String()
}

// An Account is the caller of a request.
type Account struct {
	Name  string // Anonymous without credentials
	Role  Role
	Texts bool // sees statement texts
}

// Anonymous is the name of requests without credentials.
const Anonymous = "anonymous"

// May reports whether the account satisfies a Need.
func (a Account) May(n Need) bool {
	return n.Declared() && a.Role >= n.role && (a.Texts || !n.texts)
}

type accountKey struct{}

// Of returns the account of a request that a Gate has admitted, otherwise the zero Account, which may do nothing.
func Of(ctx context.Context) Account {
	a, _ := ctx.Value(accountKey{}).(Account)
	return a
}

// SeesTexts reports whether the response to a request may have statement texts.
func SeesTexts(ctx context.Context) bool { return Of(ctx).Texts }
