"""What stands on the page belongs to the request that a reader made last."""

import threading

from normxlogit.app.latest import Latest


def test_an_answer_that_comes_after_a_later_one_is_not_shown():
    latest, begun, go_on = Latest(), threading.Event(), threading.Event()
    answers = []

    def slow():
        begun.set()
        go_on.wait(60)
        return "slow"

    waiting = threading.Thread(target=lambda: answers.append(latest("me", slow, "late")))
    waiting.start()
    assert begun.wait(60)
    assert latest("me", lambda: "quick", "late") == "quick"
    assert latest("other", lambda: "theirs", "late") == "theirs"
    go_on.set()
    waiting.join(60)
    assert answers == ["late"]
