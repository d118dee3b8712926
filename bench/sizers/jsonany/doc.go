// Package jsonany holds what encoding/json decodes into an any. Its directives are the recipe of the README of sizegen.
package jsonany
