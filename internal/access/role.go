package access

import (
	"context"
	"fmt"
)

// A Role is a set of permissions of an account. Each role includes the previous ones; the zero Role has none.
type Role uint8

// Roles.
const (
	Metrics  Role = iota + 1 // metrics and health
	Viewer                   // pages, JSON and PromQL
	Operator                 // calls that change state, and profiles
)

// Roles returns all roles in ascending order.
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

// A Need is the requirement of an endpoint. Its zero value admits no account.
type Need struct {
	role    Role
	texts   bool
	changes bool
}

// For returns the Need for at least a role.
func For(r Role) Need { return Need{role: r} }

// WithTexts returns the Need that also requires the right to statement texts.
func (n Need) WithTexts() Need { n.texts = true; return n }

// Changing returns the Need of calls that change state: each is logged with its account.
func (n Need) Changing() Need { n.changes = true; return n }

// Role returns the minimum role.
func (n Need) Role() Role { return n.role }

// Texts reports whether the account must have the right to statement texts.
func (n Need) Texts() bool { return n.texts }

// Changes reports whether calls change state.
func (n Need) Changes() bool { return n.changes }

// Declared reports whether n is not the zero value.
func (n Need) Declared() bool { return n.role != 0 }

// String returns the Need as a phrase: "the role viewer with statement texts".
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
	Texts bool // has the right to statement texts
}

// Anonymous is the account name of requests without credentials.
const Anonymous = "anonymous"

// May reports whether the account satisfies a Need.
func (a Account) May(n Need) bool {
	return n.Declared() && a.Role >= n.role && (a.Texts || !n.texts)
}

type accountKey struct{}

// Of returns the account of a request that a Gate has admitted, otherwise the zero Account, which has no
// permissions.
func Of(ctx context.Context) Account {
	a, _ := ctx.Value(accountKey{}).(Account)
	return a
}

// SeesTexts reports whether the response to a request may contain statement texts.
func SeesTexts(ctx context.Context) bool { return Of(ctx).Texts }
