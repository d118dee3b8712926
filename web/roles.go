package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"
)

// seesTexts reports whether a request's account may see what statements say. Its password was
// checked before. When there are accounts that may not, a request without one may not either.
func (s *Server) seesTexts(r *http.Request) bool {
	if len(s.opts.NoTextUsers) == 0 {
		return true
	}
	if !SeesTexts(r.Context()) {
		return false
	}
	user, _, ok := r.BasicAuth()
	return ok && !slices.Contains(s.opts.NoTextUsers, user)
}

// handle adds a route. This is the one place that tells the two kinds of accounts apart: full
// answers those who may see statement texts, textless the others; when it is nil they are refused.
func (s *Server) handle(mux *http.ServeMux, pattern string, full, textless http.Handler) {
	if textless == nil {
		textless = http.HandlerFunc(s.refuse)
	}
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if s.seesTexts(r) {
			full.ServeHTTP(w, r)
			return
		}
		textless.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), textlessKey{}, true)))
	})
}

// textlessKey marks the requests of accounts that may not see statement texts.
type textlessKey struct{}

// SeesTexts reports whether a request that came through a Server may be answered with statement
// texts. A Route whose Textless is its Handler asks it.
func SeesTexts(ctx context.Context) bool { return ctx.Value(textlessKey{}) == nil }

// open adds a route without statement texts.
func (s *Server) open(mux *http.ServeMux, pattern string, h http.Handler) {
	s.handle(mux, pattern, h, h)
}

// refuse answers accounts that may not see statement texts.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request) {
	user, _, _ := r.BasicAuth()
	s.fail(w, r, &problem{
		Status: http.StatusForbidden,
		What:   fmt.Sprintf("%s may show statement texts, which the account %q does not see.", r.URL.Path, user),
		Try:    []string{"Log in with another account.", "Ask the operator to remove the account from --web-no-text-users."},
	})
}

// CheckConfig checks exporter-toolkit's web configuration in a file, and the names in noTextUsers: a
// misspelt one would let its account see texts. Both may be empty.
func CheckConfig(configFile string, noTextUsers []string) error {
	if err := checkNoTextUsers(configFile, noTextUsers); err != nil {
		return err
	}
	if err := toolkit.Validate(configFile); err != nil {
		return fmt.Errorf("--web-config-file: %w", err)
	}
	return nil
}

func checkNoTextUsers(configFile string, noTextUsers []string) error {
	if len(noTextUsers) == 0 {
		return nil
	}
	if configFile == "" {
		return errors.New("--web-no-text-users has no effect without accounts: name a file with basic_auth_users in --web-config-file")
	}
	text, err := os.ReadFile(configFile)
	if err != nil {
		return fmt.Errorf("read accounts: %w", err)
	}
	var file struct {
		Users map[string]any `yaml:"basic_auth_users"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("read accounts in %s: %w", configFile, err)
	}
	for _, u := range noTextUsers {
		if _, ok := file.Users[u]; !ok {
			return fmt.Errorf("--web-no-text-users: there is no account %q among basic_auth_users in %s", u, configFile)
		}
	}
	return nil
}
