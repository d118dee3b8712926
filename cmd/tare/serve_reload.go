package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/visible"
	"github.com/taredb/tare/web"
)

// reload re-reads the rules, the accounts for the standby and the certificates, for an HTTP account if it has a name.
// Unreadable ones stay as they were.
func (s *service) reload(account string) *web.Reload {
	fresh, err := s.reloadRules(account)
	err = errors.Join(s.reloadAccounts(), s.reloadCertificates(), err)
	list := func(names []string) []string { return append([]string{}, names...) } // in JSON an empty list is []
	c := fresh.Changes
	r := &web.Reload{
		Time: time.Now().UTC().Truncate(time.Second), Rules: len(s.rules),
		Added: list(c.Added), Removed: list(c.Removed), Changed: list(c.Changed), Restart: list(fresh.Restart),
	}
	if err != nil {
		r.Error = err.Error()
	}
	s.reloaded.Store(r)
	return r
}

// reloadRules re-reads the rules. The result is empty after an error.
func (s *service) reloadRules(account string) (config.Reload, error) {
	fresh, err := s.cfg.Reload(s.rules)
	if err == nil {
		var rules []sqlplan.Rule
		if rules, err = planRules(fresh.Rules, s.cfg.RulesDryRun); err == nil {
			err = s.planner.SetRules(rules)
		}
	}
	if err != nil {
		s.Log.Error("rules not reloaded; the old ones stay in force", "error", err)
		return config.Reload{}, fmt.Errorf("reload rules: %w", err)
	}
	s.rules = fresh.Rules
	c := fresh.Changes
	s.Log.Info("rules reloaded", "rules", len(fresh.Rules), "added", c.Added, "removed", c.Removed, "changed", c.Changed)
	if len(fresh.Restart) > 0 {
		s.Log.Warn("changed options take effect at the next start", "options", fresh.Restart)
	}
	s.markers.add(markers.KindRules, fmt.Sprintf("Rules reloaded: %d (%d added, %d removed, %d changed)",
		len(fresh.Rules), len(c.Added), len(c.Removed), len(c.Changed)), account)
	return *fresh, nil
}

// reloadRoute returns the endpoint of a reload. Its response has the status 500 if a part was not reloaded.
func (s *service) reloadRoute() web.Route {
	return web.NewRoute(access.For(access.Operator).Changing(), "POST /-/reload", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var result *web.Reload
		s.NotifyReload(func() { result = s.reload(access.Of(r.Context()).Name) })
		w.Header().Set("Content-Type", "application/json")
		if result.Error != "" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_ = visible.NewEncoder(w).Encode(result) // the client may have disconnected
	}))
}
