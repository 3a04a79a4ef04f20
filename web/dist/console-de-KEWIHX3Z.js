import{a as p,c as m,la as o}from"./chunk-GG4UP6OT.js";m(p(o,null),document.getElementById("app"));
