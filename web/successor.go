package web

import (
	"context"
	"encoding/hex"
	"strings"
	"time"
	"unicode"

	"github.com/taredb/tare/sqldigest"
	"github.com/taredb/tare/statements"
)

// Digests have a version, so a link from before an upgrade names a statement by an older digest. Its series
// and rollups keep that digest, so its page shows the time before the upgrade, with a link to the current
// digest.

const (
	// successorRange is the time range that is searched for current digests.
	successorRange = 7 * 24 * time.Hour

	maxSuccessors = 5
)

// A successor is a current statement with the text of one that has an older digest.
type successor struct{ Name, Link string }

// older reports whether a digest belongs to an older version of the normalized text.
func older(digest string) bool {
	d, err := sqldigest.Parse(digest)
	return err == nil && !d.Current() && d != sqldigest.Digest{}
}

// olderDigest returns the problem of an older digest without calls in a range.
func olderDigest() *problem {
	return notFound("No call of this digest in this range: it is of an older version, and the statement has another one since the upgrade.",
		"Choose a range before the upgrade: the page links to the digest of today.", "Search the queries.")
}

// successors returns the current statements with the text of an older digest. It compares the texts for every
// account; names contain them only for accounts that may see them.
func (s *Server) successors(ctx context.Context, v *view, digest string) ([]successor, error) {
	old, err := s.opts.Statements.Statement(ctx, statements.StatementQuery{Digest: digest, From: v.span.From, To: v.span.To})
	if err != nil || old.Text == "" || old.TextCut {
		return nil, err
	}
	top, err := s.opts.Statements.Top(ctx, statements.TopQuery{From: v.now.Add(-successorRange), To: v.now, Limit: statements.MaxTopLimit})
	if err != nil {
		return nil, err
	}
	text := spelling(old.Text)
	var found []successor
	seen := make(map[string]bool) // a statement has one row per user and schema
	for i := range top.Rows {
		r := &top.Rows[i]
		id := hex.EncodeToString(r.Digest[:])
		if len(found) == maxSuccessors || older(id) || seen[id] || r.Text == "" || r.TextCut || spelling(r.Text) != text {
			continue
		}
		seen[id] = true
		name := ""
		if v.texts {
			name = r.Text
		}
		found = append(found, successor{statementName(name, false, r.Digest), "/query/" + id})
	}
	return found, nil
}

// spelling returns a normalized text without the features in which versions differ: case, spaces and quotes
// of names.
func spelling(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '`' || unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
}
