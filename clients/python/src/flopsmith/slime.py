"""A reward function for slime: `--custom-rm-path flopsmith.slime.reward`, also with `--group-rm`.

The label of a sample, or else `FLOPSMITH_PROBLEM`, names its problem. If the machine fails to evaluate a program in several tries, the function raises an
exception: slime would take any number for a reward.
"""

from __future__ import annotations

import asyncio
from typing import Any, List, Union

from flopsmith import calls


def _reward(sample: Any) -> float:
    body = {"prompt": sample.prompt, "response": sample.response, "label": calls.problem(sample.label)}
    return float(calls.rewarded("slime", body))


async def reward(args: Any, sample: Any, **_: Any) -> Union[float, List[float]]:
    """The reward of a sample, or those of a list of samples in their order, without blocking the event loop."""
    loop = asyncio.get_running_loop()
    if isinstance(sample, list):
        return list(await asyncio.gather(*(loop.run_in_executor(None, _reward, one) for one in sample)))
    return await loop.run_in_executor(None, _reward, sample)
