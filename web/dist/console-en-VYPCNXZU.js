import{a as p,c as m,va as o}from"./chunk-5WQ24CMY.js";m(p(o,null),document.getElementById("app"));
