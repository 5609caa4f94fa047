"""The selector of a stored configuration, in SQL: as `penstock.tasks.selectors.selector_of`, to the letter."""

from __future__ import annotations

from penstock.tasks.selectors import UNREADABLE


def selector_in(config: str) -> str:
    """An expression for the selector of the JSON configuration that another expression gives; NULL without one.

    It fails for no configuration: one malformed row must not end a statement about all jobs.
    """
    region, labels = f"{config}->>'region'", f"{config}->'container_labels'"
    in_order = "string_agg(key || '=' || value, ',' ORDER BY key COLLATE \"C\")"
    return (
        f"CASE WHEN coalesce({labels}, 'null') IN ('{{}}', 'null') THEN {region} "
        f"WHEN jsonb_typeof({labels}) <> 'object' THEN '{UNREADABLE}' "
        f"ELSE concat_ws(',', {region}, (SELECT {in_order} FROM jsonb_each_text({labels}))) END"
    )
