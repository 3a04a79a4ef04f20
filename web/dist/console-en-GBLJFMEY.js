import{a as p,c as m,va as o}from"./chunk-6VTG3KP6.js";m(p(o,null),document.getElementById("app"));
