package accounts

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
)

// digest returns digests of the selected accounts of the source, which differ if an account or its privileges do.
func (p *Plan) digest(from *server) map[Name][sha256.Size]byte {
	all := make(map[Name][sha256.Size]byte)
	for n := range p.selected(from) {
		if p.reserved(from, n) != "" {
			continue
		}
		var parts []string
		for l, granted := range from.grants[n] {
			if slices.ContainsFunc(p.schemas, func(schema string) bool { return l.on(schema, from.literal) }) {
				parts = append(parts, fmt.Sprintf("%q %q", l, slices.Sorted(maps.Keys(granted))))
			}
		}
		for role, admin := range from.held[n] {
			parts = append(parts, fmt.Sprintf("%q %v", role, admin))
		}
		slices.Sort(parts)
		if a := from.accounts[n]; a != nil {
			parts = append(parts, fmt.Sprintf("%q", a.defaults), a.create(from.vendor, n))
		}
		all[n] = sha256.Sum256([]byte(strings.Join(parts, "\n")))
	}
	return all
}

// Changed lists the accounts of the source that have changed since the plan was made.
func (p *Plan) Changed(ctx context.Context, source session.Querier) (texts []string, err error) {
	from, err := readServer(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("at the source: %w", err)
	}
	now := p.digest(from)
	for n, digest := range now {
		if was, ok := p.digests[n]; !ok {
			texts = append(texts, "account "+n.String()+" was created, or got its first privilege")
		} else if was != digest {
			texts = append(texts, "account "+n.String()+" or its privileges were altered")
		}
	}
	for n := range p.digests {
		if _, ok := now[n]; !ok {
			texts = append(texts, "account "+n.String()+" was dropped, or lost its privileges")
		}
	}
	slices.Sort(texts)
	return texts, nil
}
