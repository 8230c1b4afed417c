"""Where measurements are kept: the file, who holds it, and its runs as tables."""

from capax.store.store import DEFAULT as DEFAULT
from capax.store.store import Store as Store
from capax.store.store import check_store as check_store
