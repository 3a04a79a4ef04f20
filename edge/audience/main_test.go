package audience_test

import (
	"testing"

	"waypost/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
