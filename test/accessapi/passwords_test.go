package accessapi_test

import (
	"net/http"
	"testing"
)

func TestPasswords_CommonOnesAreRefusedWhereverOneIsSet(t *testing.T) {
	p := start(t)
	admin := p.firstAdmin()
	made := p.want(201, call{path: "/api/v1/users", credential: admin, body: map[string]any{"email": "ann@example.com", "role": "member"}})
	change := func(status int, word string) {
		t.Helper()
		p.want(status, call{method: http.MethodPatch, path: "/api/v1/me", credential: admin, body: map[string]any{"password": word, "current_password": password}})
	}
	for _, word := range []string{
		"password1234", "PassWord2026!", "passwordpassword", "qwertyqwerty", "dragondragon99", "monkey123456789",
	} {
		change(422, word)
	}
	const word = "password1234"
	p.want(422, call{path: "/api/v1/invitation", body: map[string]any{"token": invitationOf(made), "password": word}})
	p.want(422, call{path: "/api/v1/users", credential: admin, body: map[string]any{"email": "bob@example.com", "role": "member", "password": word}})
	p.want(422, call{method: http.MethodPatch, path: "/api/v1/users/" + made.id(), credential: admin, body: map[string]any{"password": word}})
	change(200, "correcthorsebatterystaple")
}
