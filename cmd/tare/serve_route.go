package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/web"
)

// routeName is the file in the data directory with the server that sessions were switched to.
const routeName = "route.json"

// A savedRoute is the content of the file.
type savedRoute struct {
	Version int       `json:"version"` // 1
	Address string    `json:"address"` // of the server of the sessions
	At      time.Time `json:"at"`      // of the switch; zero if there was none yet
}

// setRoute configures the gateway's second server and its initial server: the target of the last switch, even
// if its address has changed since.
func (s *service) setRoute(o *gateway.Options) error {
	path := s.Data.File(routeName)
	saved, err := readRoute(path)
	if err != nil {
		return routeError(path, err)
	}
	known := saved.Address == "" || saved.Address == string(s.cfg.Backend) || s.cfg.Standby != "" && saved.Address == string(s.cfg.Standby)
	if !known {
		return routeError(path, fmt.Errorf("sessions were switched to %s on %s, which is neither --backend %s nor --standby: "+
			"start with --backend mysql://%s, or remove %s if that server is not to be used any more",
			saved.Address, saved.At.Format(time.RFC3339), s.cfg.Backend, saved.Address, path))
	}
	if s.cfg.Standby == "" {
		return nil
	}
	accounts, err := config.LoadAccounts(s.cfg.StandbyAccounts)
	if err != nil {
		return fmt.Errorf("--standby-%w", err)
	}
	s.accounts.Store(&accounts)
	if !saved.At.IsZero() {
		s.switched.Store(&saved)
	}
	standby := o.Backend
	standby.Addr = string(s.cfg.Standby)
	o.Standby = &standby
	o.Password = passwordIn(&s.accounts)
	o.SaveRoute = s.saveRoute
	if saved.Address == string(s.cfg.Standby) {
		o.Route = switchover.Standby
	}
	return nil
}

// routeError marks an error of the file as one that a restart does not mend.
func routeError(path string, err error) error {
	return &usageError{err: err, try: "cat " + path}
}

// passwordIn returns a function that returns the password of a user in a file of accounts.
func passwordIn(accounts *atomic.Pointer[config.Accounts]) func(user string) (string, bool) {
	return func(user string) (string, bool) {
		p, ok := (*accounts.Load())[user]
		return p.Reveal(), ok
	}
}

// reloadAccounts re-reads the files of accounts. The server decides the next login of each account that was learned.
func (s *service) reloadAccounts() error {
	if s.cfg.PoolLearn {
		s.gateway.DoubtLearned()
	}
	return errors.Join(s.reloadFile(&s.accounts, s.cfg.StandbyAccounts, "--standby-"), s.reloadFile(&s.poolAccounts, s.cfg.PoolAccounts, "--pool-"))
}

// reloadFile re-reads a file of accounts, if it is in use.
func (s *service) reloadFile(accounts *atomic.Pointer[config.Accounts], path, option string) error {
	if accounts.Load() == nil {
		return nil
	}
	fresh, err := config.LoadAccounts(path)
	if err != nil {
		s.Log.Error("the accounts stay as they were", "option", option+"accounts", "error", err)
		return fmt.Errorf("reload %s%w", option, err)
	}
	accounts.Store(&fresh)
	s.Log.Info("accounts reloaded", "option", option+"accounts", "accounts", len(fresh))
	return nil
}

// routeAPI returns the API for pausing and switching sessions.
func (s *service) routeAPI() []web.Route {
	h := s.gateway.RouteHandler()
	all := []web.Route{web.NewRoute(access.For(access.Viewer), "GET "+gateway.RoutePattern, h).
		Listed(gateway.RoutePattern, "the server that sessions go to, and what prevents a switch")}
	for _, call := range []string{"hold", "switch", "release"} {
		all = append(all, web.NewRoute(access.For(access.Operator).Changing(), "POST "+gateway.RoutePattern+"/"+call, s.marked(h)))
	}
	return all
}

// readRoute returns the saved route, empty if there is none.
func readRoute(path string) (saved savedRoute, err error) {
	if path == "" {
		return saved, nil
	}
	text, err := localstate.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return saved, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &saved)
	}
	if err == nil && (saved.Version != 1 || saved.Address == "") {
		err = fmt.Errorf("version %d, address %q: want version 1 and an address", saved.Version, saved.Address)
	}
	if err != nil {
		return savedRoute{}, fmt.Errorf("read where sessions were switched to: %s: %w; remove the file if they belong to --backend", path, err)
	}
	return saved, nil
}

// saveRoute writes the route atomically: a restart after a kill or a power failure finds the old or the new
// one.
func (s *service) saveRoute(addr string) error {
	path := s.Data.File(routeName)
	saved := savedRoute{Version: 1, Address: addr, At: time.Now().UTC().Truncate(time.Second)}
	switch last := s.switched.Load(); {
	case last == nil && addr == string(s.cfg.Backend): // the sessions' server if they were never switched
		saved.At = time.Time{}
	case last != nil && last.Address == addr: // the sessions' current server
		saved = *last
	}
	text, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	if err := localstate.WriteFile(path, append(text, '\n')); err != nil {
		return err
	}
	if !saved.At.IsZero() {
		s.switched.Store(&saved)
	}
	return nil
}
